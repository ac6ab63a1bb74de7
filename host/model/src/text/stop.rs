//! Stop strings, found in text that comes in pieces.

use std::sync::Arc;

use super::error::TextError;

/// One request's search for its stop strings.
///
/// The stop string that is complete first ends the text: the one with the earliest end, and of those that end together
/// the longest. So the result does not depend on how the text is cut into pieces. The text before it is released, the
/// stop string and all after it are not. While a stop string may still be coming, the text that would belong to it, and
/// no other, is held back. Memory is about twice the longest stop string, time is linear in the text.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    stops: Arc<[Stop]>,
    /// For each stop string, how many of its bytes the text so far ends with.
    matched_bytes: Vec<usize>,
    /// Text that came in; what is before `held_from` is released.
    text: String,
    held_from: usize,
    found: Option<usize>,
}

/// A stop string with its Knuth-Morris-Pratt table.
#[derive(Debug)]
struct Stop {
    bytes: Box<[u8]>,
    /// For n bytes matched, `borders[n - 1]` is the length of the longest proper prefix of them that is also a suffix.
    borders: Box<[usize]>,
}

impl Stop {
    fn new(text: &str) -> Self {
        let mut stop = Self {
            bytes: text.as_bytes().into(),
            borders: vec![0; text.len()].into(),
        };
        for place in 1..stop.bytes.len() {
            stop.borders[place] = stop.advance(stop.borders[place - 1], stop.bytes[place]);
        }
        stop
    }

    /// How many bytes match after `byte`, when `matched` (fewer than all) did before.
    fn advance(&self, mut matched: usize, byte: u8) -> usize {
        while matched > 0 && self.bytes[matched] != byte {
            matched = self.borders[matched - 1];
        }
        matched + usize::from(self.bytes[matched] == byte)
    }
}

impl StopMatcher {
    /// A matcher at the beginning of an answer. Without stop strings everything is released at once.
    ///
    /// # Errors
    /// [`TextError::EmptyStop`] names the first empty stop string.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<Self, TextError> {
        if let Some(index) = stops.iter().position(|stop| stop.as_ref().is_empty()) {
            return Err(TextError::EmptyStop { index });
        }
        let stops: Arc<[Stop]> = stops.iter().map(|stop| Stop::new(stop.as_ref())).collect();
        Ok(Self {
            matched_bytes: vec![0; stops.len()],
            stops,
            text: String::new(),
            held_from: 0,
            found: None,
        })
    }

    /// Takes the next piece of text and appends to `out` what is released.
    ///
    /// Returns the index of the stop string that ended the text, now or earlier. From then on nothing is released.
    pub fn push(&mut self, piece: &str, out: &mut String) -> Option<usize> {
        if self.found.is_some() {
            return self.found;
        }
        if self.stops.is_empty() {
            out.push_str(piece);
            return None;
        }
        let before = self.text.len();
        self.text.push_str(piece);
        for (place, byte) in piece.bytes().enumerate() {
            if let Some((found, length)) = self.advance(byte) {
                self.found = Some(found);
                self.release(before + place + 1 - length, out);
                self.text = String::new();
                return self.found;
            }
        }
        // Both ends of a partial match are ends of characters: the stop string and the piece are whole text.
        let held = self.matched_bytes.iter().copied().max().unwrap_or(0);
        self.release(self.text.len() - held, out);
        None
    }

    /// Ends the text for another reason than a stop string: what was held back is released.
    pub fn flush(&mut self, out: &mut String) {
        if self.found.is_none() {
            self.release(self.text.len(), out);
            self.matched_bytes.fill(0);
        }
    }

    /// Bytes of text in memory.
    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.text.len()
    }

    /// Moves every stop string's match on by a byte. Returns the index and length of the longest one now complete.
    fn advance(&mut self, byte: u8) -> Option<(usize, usize)> {
        let mut complete: Option<(usize, usize)> = None;
        for (index, (stop, matched)) in self.stops.iter().zip(&mut self.matched_bytes).enumerate() {
            *matched = stop.advance(*matched, byte);
            if *matched == stop.bytes.len() && complete.is_none_or(|(_, length)| length < *matched) {
                complete = Some((index, *matched));
            }
        }
        complete
    }

    /// Releases the text before `end`.
    fn release(&mut self, end: usize, out: &mut String) {
        out.push_str(&self.text[self.held_from..end]);
        self.held_from = end;
        // Moving the rest to the front only when it is the smaller part keeps the time linear.
        if self.held_from > self.text.len() / 2 {
            self.text.drain(..self.held_from);
            self.held_from = 0;
        }
    }
}
