//! A chart's marks as PNG, for what shows no SVG: slides, papers, chats.

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use zeno::{Command, Mask, Origin, PathBuilder as _, Placement, Stroke};

use super::marks::{Anchor, At, Face, Ink, Mark};
use super::{HEIGHT, WIDTH};

/// Pixels a unit: sharp where two pixels of a screen make one.
const SCALE: f64 = 2.0;
const COLUMNS: usize = (WIDTH * SCALE) as usize;
const ROWS: usize = (HEIGHT * SCALE) as usize;
/// Of a letter's box, what lies above the baseline.
const ASCENT: f64 = 0.8;

/// The whole file.
pub(super) fn write(marks: &[Mark]) -> Vec<u8> {
    let mut canvas = Canvas {
        rgb: vec![0xff; COLUMNS * ROWS * 3],
    };
    for mark in marks {
        match mark {
            Mark::Line(from, to, ink) => canvas.stroke(&[*from, *to], *ink),
            Mark::Curve(points, ink) => canvas.stroke(points, *ink),
            Mark::Dot(at, ink) => canvas.dot(*at, *ink),
            Mark::Text { at, text, anchor, face } => canvas.text(*at, text, *anchor, *face),
        }
    }
    canvas.encode()
}

/// Pixels as rows of red, green, blue.
struct Canvas {
    rgb: Vec<u8>,
}

impl Canvas {
    fn stroke(&mut self, points: &[At], ink: Ink) {
        let mut path: Vec<Command> = Vec::with_capacity(points.len());
        for (i, &(x, y)) in points.iter().enumerate() {
            let at = [(x * SCALE) as f32, (y * SCALE) as f32];
            if i == 0 {
                path.move_to(at)
            } else {
                path.line_to(at)
            };
        }
        let (width, dashes): (f64, &[f32]) = match ink {
            Ink::Grid | Ink::Axis => (1.0, &[]),
            Ink::Best => (2.6, &[7.0 * SCALE as f32, 4.0 * SCALE as f32]),
            Ink::Curve(_) => (1.6, &[]),
        };
        let mut stroke = Stroke::new((width * SCALE) as f32);
        if !dashes.is_empty() {
            stroke.dash(dashes, 0.0);
        }
        let (mask, place) = Mask::new(&path).origin(Origin::TopLeft).style(stroke).render();
        self.fill(&mask, place, ink);
    }

    fn dot(&mut self, (x, y): At, ink: Ink) {
        let mut path: Vec<Command> = Vec::new();
        path.add_circle([(x * SCALE) as f32, (y * SCALE) as f32], (3.0 * SCALE) as f32);
        let (mask, place) = Mask::new(&path).origin(Origin::TopLeft).render();
        self.fill(&mask, place, ink);
    }

    /// Lays `ink` on, as thick as the mask says.
    fn fill(&mut self, mask: &[u8], place: Placement, ink: Ink) {
        let (colour, opacity) = match ink {
            Ink::Grid => (0x808080, 0.25),
            Ink::Axis => (0x808080, 1.0),
            Ink::Best => (0x222222, 1.0),
            Ink::Curve(_) => (ink.colour().unwrap_or(0), 1.0),
        };
        for (i, &alpha) in mask.iter().enumerate() {
            let (row, column) = (i / place.width as usize, i % place.width as usize);
            let (x, y) = (place.left as i64 + column as i64, place.top as i64 + row as i64);
            self.blend(x, y, colour, opacity * f64::from(alpha) / 255.0);
        }
    }

    fn text(&mut self, (x, y): At, text: &str, anchor: Anchor, face: Face) {
        let (weight, size) = match face {
            Face::Title => (FontWeight::Bold, RasterHeight::Size32),
            Face::Plain | Face::Upright => (FontWeight::Regular, RasterHeight::Size24),
        };
        let advance = get_raster_width(weight, size) as i64;
        let length = advance * text.chars().count() as i64;
        let start = match anchor {
            Anchor::Start => 0,
            Anchor::Middle => -length / 2,
            Anchor::End => -length,
        };
        let ascent = (size.val() as f64 * ASCENT) as i64;
        let (x, y) = ((x * SCALE) as i64, (y * SCALE) as i64);
        let letters = text
            .chars()
            .filter_map(|c| get_raster(c, weight, size).or_else(|| get_raster('?', weight, size)));
        for (i, letter) in letters.enumerate() {
            for (row, pixels) in letter.rows().enumerate() {
                for (column, &alpha) in pixels.iter().enumerate() {
                    let along = start + i as i64 * advance + column as i64;
                    let below = row as i64 - ascent;
                    let (x, y) = match face {
                        Face::Upright => (x + below, y - along),
                        Face::Plain | Face::Title => (x + along, y + below),
                    };
                    self.blend(x, y, 0x333333, f64::from(alpha) / 255.0);
                }
            }
        }
    }

    /// Mixes `colour` (0xRRGGBB) into a pixel; what lies outside of the picture is cut off.
    fn blend(&mut self, x: i64, y: i64, colour: u32, alpha: f64) {
        if !(0..COLUMNS as i64).contains(&x) || !(0..ROWS as i64).contains(&y) {
            return;
        }
        let first = (y as usize * COLUMNS + x as usize) * 3;
        let [_, channels @ ..] = colour.to_be_bytes();
        for (under, over) in self.rgb[first..first + 3].iter_mut().zip(channels) {
            let mixed = f64::from(*under) * (1.0 - alpha) + f64::from(over) * alpha;
            *under = mixed.round() as u8;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, COLUMNS as u32, ROWS as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&self.rgb))
            .expect("a Vec takes all that is written to it, and the picture has the size that the header says");
        file
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, Curve, Style};
    use super::*;

    fn pixels(curves: Vec<Curve>) -> Vec<[u8; 3]> {
        let [title, x_label, y_label] = ["N < 3 \u{2264} more", "share (%)", "right (%)"].map(str::to_owned);
        let chart = Chart {
            title,
            x_label,
            y_label,
            curves,
        };
        let file = chart.png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
        let mut rgb = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut rgb).unwrap();
        assert_eq!((info.width as usize, info.height as usize), (COLUMNS, ROWS));
        rgb.as_chunks::<3>().0.to_vec()
    }

    fn of_colour(pixels: &[[u8; 3]], colour: u32) -> usize {
        let [_, r, g, b] = colour.to_be_bytes();
        pixels.iter().filter(|&&pixel| pixel == [r, g, b]).count()
    }

    #[test]
    fn each_curve_is_seen_in_its_colour_inside_of_the_frame() {
        let curve = |style| Curve {
            name: "a curve".to_owned(),
            style,
            points: vec![(0.0, 63.0), (50.0, 0.0), (100.0, 95.1)],
        };
        let pixels = pixels([Style::Line, Style::Dotted, Style::Dashed].map(curve).to_vec());
        for colour in [0x222222, Ink::Curve(1).colour().unwrap()] {
            assert!(of_colour(&pixels, colour) > 300, "{colour:06x}");
        }
        // The dashed curve lies on the others, so the first is seen where it has gaps and in the legend.
        assert!(of_colour(&pixels, Ink::Curve(0).colour().unwrap()) > 20);
        let edge = (0..ROWS).map(|row| pixels[row * COLUMNS + COLUMNS - 1]);
        assert!(edge.into_iter().all(|pixel| pixel == [0xff; 3]));
    }

    #[test]
    fn a_chart_without_points_has_axes_and_words_and_no_curve() {
        let pixels = pixels(Vec::new());
        assert!(of_colour(&pixels, 0x333333) > 200);
        assert_eq!(of_colour(&pixels, Ink::Curve(0).colour().unwrap()), 0);
    }

    #[test]
    fn one_point_alone_and_names_of_any_length_do_no_harm() {
        let point = Curve {
            name: "\u{1f600}".repeat(300),
            style: Style::Dotted,
            points: vec![(3.0, 2.0)],
        };
        assert!(of_colour(&pixels(vec![point]), Ink::Curve(0).colour().unwrap()) > 50);
    }
}
