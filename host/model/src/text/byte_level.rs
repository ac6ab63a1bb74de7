//! The alphabet of byte-level BPE: a printable character for each of the 256 bytes.
//!
//! From GPT-2's `bytes_to_unicode`: bytes that Latin-1 prints stand for themselves, the others, in order, are U+0100 and on.

const LETTERS: usize = 0x144;

static BYTE_OF: [Option<u8>; LETTERS] = byte_of();

const fn byte_of() -> [Option<u8>; LETTERS] {
    let mut table = [None; LETTERS];
    let mut others = 0;
    let mut byte = 0;
    while byte < 256 {
        let letter = match byte as u8 {
            b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => byte,
            _ => {
                others += 1;
                0xff + others
            }
        };
        table[letter] = Some(byte as u8);
        byte += 1;
    }
    table
}

/// The byte that a letter of the alphabet stands for.
pub(super) fn byte_of_letter(letter: char) -> Option<u8> {
    BYTE_OF.get(letter as usize).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_the_libraries() {
        let ours: Vec<char> = (0..0x1000)
            .filter_map(char::from_u32)
            .filter(|&c| byte_of_letter(c).is_some())
            .collect();
        let theirs = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        assert_eq!(ours.len(), 256);
        assert!(ours.iter().all(|letter| theirs.contains(letter)));
        // The four that everyone knows: space, newline, tab, and the first byte of most emoji.
        for (letter, byte) in [('Ġ', b' '), ('Ċ', b'\n'), ('ĉ', b'\t'), ('ð', 0xf0)] {
            assert_eq!(byte_of_letter(letter), Some(byte));
        }
    }
}
