//! A chart's marks as SVG.

use std::fmt::Write;

use super::marks::{Anchor, At, Face, Ink, Mark};
use super::{HEIGHT, WIDTH};

/// Greys that read on a light and on a dark page; a viewer that knows the reader's preference sharpens them.
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#767676}\
.title{font-size:15px;font-weight:600}\
.grid{stroke:#808080;stroke-opacity:.25}\
.axis{stroke:#808080}\
.curve{fill:none;stroke-width:1.6}\
.best{fill:none;stroke:#808080;stroke-width:2.6;stroke-dasharray:7 4}\
@media(prefers-color-scheme:light){text{fill:#333}.best{stroke:#222}}\
@media(prefers-color-scheme:dark){text{fill:#ccc}.best{stroke:#eee}}";

/// The whole file. `title` is for those who hear it.
pub(super) fn write(title: &str, marks: &[Mark]) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\
         <title>{}</title><style>{STYLE}</style>\n",
        escape(title)
    );
    for mark in marks {
        let text = match mark {
            Mark::Line(from, to, ink) => line(*from, *to, *ink),
            Mark::Curve(points, ink) => curve(points, *ink),
            Mark::Dot((x, y), ink) => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"{}/>", colour("fill", *ink)),
            Mark::Text { at, text, anchor, face } => set(*at, text, *anchor, *face),
        };
        writeln!(out, "{text}").expect("a String takes all that is written to it");
    }
    out.push_str("</svg>\n");
    out
}

fn line((x1, y1): At, (x2, y2): At, ink: Ink) -> String {
    format!(
        "<line class=\"{}\"{} x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y1:.1}\" y2=\"{y2:.1}\"/>",
        class(ink),
        colour("stroke", ink)
    )
}

fn curve(points: &[At], ink: Ink) -> String {
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let (class, colour) = (class(ink), colour("stroke", ink));
    format!("<polyline class=\"{class}\"{colour} points=\"{}\"/>", path.join(" "))
}

fn set((x, y): At, text: &str, anchor: Anchor, face: Face) -> String {
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let face = match face {
        Face::Plain => String::new(),
        Face::Title => " class=\"title\"".to_owned(),
        Face::Upright => format!(" transform=\"rotate(-90 {x:.1} {y:.1})\""),
    };
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{anchor}{face}>{}</text>", escape(text))
}

fn class(ink: Ink) -> &'static str {
    match ink {
        Ink::Grid => "grid",
        Ink::Axis => "axis",
        Ink::Best => "best",
        Ink::Curve(_) => "curve",
    }
}

/// A curve's colour as that attribute; the other inks have theirs from the style.
fn colour(attribute: &str, ink: Ink) -> String {
    ink.colour()
        .map(|colour| format!(" {attribute}=\"#{colour:06x}\""))
        .unwrap_or_default()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
