//! What a chart consists of, placed and named by meaning; each way of writing knows its colours and widths.

/// A place in the picture: from its left, from its top.
pub(super) type At = (f64, f64);

/// What a line stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ink {
    Grid,
    Axis,
    /// What the others are compared with: grey and dashed.
    Best,
    /// The curve of this rank, in a colour of its own.
    Curve(usize),
}

impl Ink {
    /// Okabe and Ito's colours without black and yellow: told apart by colour-blind eyes, seen on light and on dark.
    const COLOURS: [u32; 6] = [0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00];

    /// A curve's colour as 0xRRGGBB.
    pub(super) fn colour(self) -> Option<u32> {
        match self {
            Ink::Curve(rank) => Some(Ink::COLOURS[rank % Ink::COLOURS.len()]),
            Ink::Grid | Ink::Axis | Ink::Best => None,
        }
    }
}

/// Which end of a text lies at its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text is set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Face {
    Plain,
    /// Larger and bold.
    Title,
    /// Read from below upwards.
    Upright,
}

/// One thing to draw.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Mark {
    Line(At, At, Ink),
    Curve(Vec<At>, Ink),
    /// A filled circle of radius 3.
    Dot(At, Ink),
    /// A line of text whose baseline goes through `at`.
    Text {
        at: At,
        text: String,
        anchor: Anchor,
        face: Face,
    },
}

impl Mark {
    pub(super) fn text(at: At, anchor: Anchor, text: String) -> Self {
        Mark::Text {
            at,
            text,
            anchor,
            face: Face::Plain,
        }
    }

    pub(super) fn title(at: At, text: &str) -> Self {
        Mark::Text {
            at,
            text: text.to_owned(),
            anchor: Anchor::Start,
            face: Face::Title,
        }
    }

    pub(super) fn upright(at: At, text: &str) -> Self {
        Mark::Text {
            at,
            text: text.to_owned(),
            anchor: Anchor::Middle,
            face: Face::Upright,
        }
    }
}
