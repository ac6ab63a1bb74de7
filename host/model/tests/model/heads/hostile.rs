//! Checkpoints come from strangers: whatever they contain, reading one executes nothing, takes no more memory than its
//! size warrants, and ends in an error that says what is wrong.

use std::io::Write as _;
use std::path::PathBuf;

use tokenrouter_core::draw::{Purpose, bits};
use tokenrouter_model::heads::HeadKind;
use tokenrouter_model::heads::checkpoint::Checkpoint;
use tokenrouter_model::heads::convert::{ConvertOptions, convert};
use zip::write::{SimpleFileOptions, ZipWriter};

use super::fixtures::path;

/// A file of a name of its own in the build folder.
fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A zip file as `torch.save` lays it out.
fn zip_file(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in entries {
        zip.start_file(format!("archive/{name}"), stored).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Why a checkpoint with this pickle, and storage 0 of 16 bytes, does not become a deferral vector.
fn refused(name: &str, pickle: &[u8]) -> String {
    let file = write(name, &zip_file(&[("data.pkl", pickle), ("data/0", &[0; 16])]));
    let converted = Checkpoint::open(&file)
        .and_then(|mut checkpoint| convert(&mut checkpoint, HeadKind::CoLlm, &ConvertOptions::default()));
    std::fs::remove_file(file).unwrap();
    converted.expect_err(name).to_string()
}

/// `{"deferral.weight": _rebuild_tensor_v2(storage of `elements`, 0, (size,), (stride,), False, None)}`.
fn tensor(dtype: &str, elements: u64, size: u64, stride: u64) -> Vec<u8> {
    let long = |number: u64| [&[0x8a, 8][..], &number.to_le_bytes()].concat();
    let text = |text: &str| [&[b'X'][..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    [
        b"\x80\x02}".to_vec(),
        text("deferral.weight"),
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        text("storage"),
        format!("ctorch\n{dtype}\n").into_bytes(),
        text("0"),
        text("cpu"),
        long(elements),
        b"tQK\x00".to_vec(),
        long(size),
        b"\x85".to_vec(),
        long(stride),
        b"\x85\x89NtRs.".to_vec(),
    ]
    .concat()
}

#[test]
fn what_would_execute_code_is_refused_by_name() {
    let call = |module: &str, name: &str| format!("\u{2}c{module}\n{name}\n(X\u{4}\0\0\0echotR.").into_bytes();
    for (module, name) in [
        ("posix", "system"),
        ("builtins", "eval"),
        ("subprocess", "Popen"),
        ("torch", "load"),
        ("torch", "FloatStorage.from_file"),
        ("collections", "OrderedDict.fromkeys"),
        ("numpy.core.multiarray", "fromfile"),
    ] {
        let pickle = [&[0x80][..], &call(module, name)].concat();
        let error = refused("name.pth", &pickle);
        assert!(
            error.contains(&format!("it names `{module}.{name}`, which would be executed")),
            "{error}"
        );
    }
    for (name, pickle) in [
        ("INST", &b"\x80\x02(X\x04\0\0\0echoiposix\nsystem\n."[..]),
        ("OBJ", b"\x80\x02(ccollections\nOrderedDict\no."),
        ("NEWOBJ", b"\x80\x02ccollections\nOrderedDict\n)\x81."),
        ("NEWOBJ_EX", b"\x80\x02ccollections\nOrderedDict\n)}\x92."),
        ("STACK_GLOBAL", b"\x80\x02X\x05\0\0\0posixX\x06\0\0\0system\x93."),
        ("EXT1", b"\x80\x02\x82\x01."),
    ] {
        let error = refused("instruction.pth", pickle);
        assert!(
            error.contains(&format!("the instruction {name} ")) && error.contains("would execute code"),
            "{error}"
        );
    }
}

#[test]
fn a_pickle_that_is_broken_is_refused_at_its_byte() {
    for (pickle, part) in [
        (&b""[..], "byte 0: it ends after 0 of 1 bytes"),
        (b"\x80\x05.", "protocol 5; `torch.save` writes protocol 2"),
        (b"\x80\x02.", "byte 2: the stack is empty"),
        (
            b"\x80\x02X\xff\xff\xff\xffabc",
            "byte 2: it ends after 3 of 4294967295 bytes",
        ),
        (b"\x80\x02t.", "there is no mark on the stack"),
        (b"\x80\x02N(\x85.", "the stack is empty"),
        (b"\x80\x02h\x07.", "nothing was stored at 7"),
        (b"\x80\x02}(Nu.", "SETITEMS with a key without a value"),
        (b"\x80\x02Na.", "the stack is empty"),
        (b"\x80\x02NNa.", "APPENDS to None"),
        (b"\x80\x02NNb.", "BUILD of None"),
        (b"\x80\x02)Q.", "BINPERSID of a tuple, expected a storage"),
        (b"\x80\x02cos\n", "it ends within a name"),
        (b"\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\x01.", "an integer of 9 bytes"),
        (b"\x80\x02X\x01\0\0\0\xff.", "a string is not UTF-8"),
        (b"\x80\x02]q\x00h\x00a.", "neither \"deferral.weight\" nor"),
    ] {
        let error = refused("broken.pth", pickle);
        assert!(error.contains(part), "{pickle:?}: {error}, expected {part}");
    }
}

/// Python's objects are shared, so thirty doublings are a few dozen bytes and not a billion values.
#[test]
fn doubling_a_value_costs_no_memory() {
    let mut pickle = b"\x80\x02]q\x00".to_vec();
    for _ in 0..64 {
        pickle.extend(b"h\x00h\x00\x86q\x00");
    }
    pickle.push(b'.');
    assert!(refused("doubled.pth", &pickle).contains("neither \"deferral.weight\" nor"));
}

#[test]
fn a_tensor_that_is_larger_than_its_storage_is_refused_before_memory_is_taken() {
    let huge = 1u64 << 40;
    for (pickle, part) in [
        (
            tensor("FloatStorage", 4, huge, 1),
            "shape [1099511627776] does not fit its storage of 4 elements",
        ),
        (
            tensor("FloatStorage", 4, huge, 0),
            "does not fit its storage of 4 elements",
        ),
        (
            tensor("FloatStorage", 4, 4, huge),
            "does not fit its storage of 4 elements",
        ),
        (
            tensor("FloatStorage", huge, huge, 1),
            "data/0 has 16 bytes, expected 4398046511104",
        ),
        (tensor("FloatStorage", 5, 5, 1), "data/0 has 16 bytes, expected 20"),
        (tensor("FloatStorage", 3, 3, 1), "claims 16 bytes; expected at most 12"),
        (
            tensor("LongStorage", 2, 2, 1),
            "elements of type Long; supported: Float, Double, Half, BFloat16",
        ),
    ] {
        let error = refused("huge.pth", &pickle);
        assert!(error.contains(part), "{error}, expected {part}");
    }
}

#[test]
fn other_files_are_refused_with_what_is_expected() {
    for (bytes, part) in [
        (
            &b"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"[..],
            "PyTorch's format from before 1.6",
        ),
        (
            b"#!/bin/sh\n",
            "neither a zip file as `torch.save` writes it nor a safetensors file",
        ),
        (b"", "neither a zip file"),
        (b"PK\x03\x04", "damaged"),
        (
            &zip_file(&[("weights", b"")]),
            "0 entries data.pkl; a checkpoint has one",
        ),
        (
            &zip_file(&[("data.pkl", b""), ("b/data.pkl", b"")]),
            "2 entries data.pkl",
        ),
        (
            &zip_file(&[("byteorder", b"big"), ("data.pkl", b"\x80\x02}.")]),
            "saved on a big-endian machine",
        ),
    ] {
        let file = write("other.pth", bytes);
        let error = Checkpoint::open(&file).err().expect("it is no checkpoint").to_string();
        assert!(error.contains(part), "{error}, expected {part}");
        std::fs::remove_file(file).unwrap();
    }
}

/// A real checkpoint, cut anywhere or with bytes changed anywhere: it becomes a head or an error, and nothing else. Seed 7.
#[test]
fn damaged_checkpoints_end_in_a_head_or_an_error() {
    let whole = std::fs::read(path("r2r-three-classes.pt")).unwrap();
    let attempt = |bytes: &[u8]| {
        let file = write("damaged.pt", bytes);
        let result = Checkpoint::open(&file)
            .and_then(|mut checkpoint| convert(&mut checkpoint, HeadKind::R2r, &ConvertOptions::default()));
        std::fs::remove_file(file).unwrap();
        result.is_ok()
    };
    assert!(attempt(&whole));
    for len in (0..whole.len()).step_by(97) {
        assert!(!attempt(&whole[..len]), "cut to {len} bytes");
    }
    let draw = |number: u64, below: usize| (bits(7, number, Purpose::Policy(0)) % below as u64) as usize;
    for case in 0..400 {
        let mut bytes = whole.clone();
        for change in 0..=draw(case * 100, 3) as u64 {
            let place = draw(case * 100 + change * 2 + 1, bytes.len());
            bytes[place] = draw(case * 100 + change * 2 + 2, 256) as u8;
        }
        attempt(&bytes);
    }
}
