//! UTF-8 that arrives byte by byte.

use std::char::REPLACEMENT_CHARACTER;

/// How bytes that are not UTF-8 are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Invalid {
    /// One U+FFFD for each longest prefix of a character, as [`String::from_utf8_lossy`] does.
    OnePerSequence,
    /// One U+FFFD for each byte, as SentencePiece does.
    OnePerByte,
}

/// The bytes of a character that is not complete yet: at most three between calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Utf8Assembler {
    bytes: [u8; 4],
    len: u8,
}

impl Utf8Assembler {
    /// Takes one byte and emits what it completes or proves invalid.
    pub(super) fn push(&mut self, byte: u8, invalid: Invalid, mut emit: impl FnMut(&str)) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
        while self.len > 0 {
            match std::str::from_utf8(&self.bytes[..usize::from(self.len)]) {
                Ok(text) => {
                    emit(text);
                    self.len = 0;
                }
                Err(error) => {
                    // What was pending is the beginning of one character, so the error is at 0 and the rest after it
                    // is at most the new byte, which may begin a character of its own.
                    let Some(length) = error.error_len() else { return };
                    emit_invalid(length, invalid, &mut emit);
                    self.bytes.copy_within(length.., 0);
                    self.len -= length as u8;
                }
            }
        }
    }

    /// Ends the byte sequence: a character that is still incomplete never will be.
    pub(super) fn finish(&mut self, invalid: Invalid, mut emit: impl FnMut(&str)) {
        if self.len > 0 {
            emit_invalid(usize::from(self.len), invalid, &mut emit);
            self.len = 0;
        }
    }
}

fn emit_invalid(bytes: usize, invalid: Invalid, emit: &mut impl FnMut(&str)) {
    let count = match invalid {
        Invalid::OnePerSequence => 1,
        Invalid::OnePerByte => bytes,
    };
    for _ in 0..count {
        emit(REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(bytes: &[u8], invalid: Invalid) -> String {
        let (mut assembler, mut text) = (Utf8Assembler::default(), String::new());
        for &byte in bytes {
            assembler.push(byte, invalid, |part| text.push_str(part));
            assert!(assembler.len <= 3);
        }
        assembler.finish(invalid, |part| text.push_str(part));
        text
    }

    /// All sequences of up to five bytes out of those at which UTF-8's tables change.
    #[test]
    fn agrees_with_the_standard_library_on_every_short_sequence_of_boundary_bytes() {
        const BOUNDARIES: [u8; 13] = [
            b'a', 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc3, 0xe0, 0xed, 0xf0, 0xf4,
        ];
        let count = BOUNDARIES.len();
        for length in 0..=5u32 {
            for number in 0..count.pow(length) {
                let bytes: Vec<u8> = (0..length)
                    .map(|place| BOUNDARIES[number / count.pow(place) % count])
                    .collect();
                assert_eq!(
                    assemble(&bytes, Invalid::OnePerSequence),
                    String::from_utf8_lossy(&bytes),
                    "{bytes:x?}"
                );
                let one_each: String = bytes
                    .utf8_chunks()
                    .flat_map(|chunk| [chunk.valid().to_owned(), "\u{fffd}".repeat(chunk.invalid().len())])
                    .collect();
                assert_eq!(assemble(&bytes, Invalid::OnePerByte), one_each, "{bytes:x?}");
            }
        }
    }
}
