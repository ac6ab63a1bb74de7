//! Models on a GPU: with no driver, and on the emulated one (`host/model/kernels/emulated`), which runs the kernels'
//! sources on the CPU. What it cannot show is that the hardware does what the emulation does; `tokenrouter-host gpu-check`
//! makes the same claims on a real device.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use crate::common::{Server, file};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_tokenrouter-host");

/// A folder with the emulated driver, built from source with the system's C++ compiler.
static EMULATED: LazyLock<PathBuf> = LazyLock::new(|| {
    let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/kernels");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulated-cuda");
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    // Built aside and moved: tests run in several processes.
    let built = folder.join(format!("{}.so", std::process::id()));
    let output = Command::new(&compiler)
        .args([
            "-std=c++17",
            "-O3",
            "-fPIC",
            "-shared",
            "-fvisibility=hidden",
            "-DEMULATED",
            "-w",
        ])
        .arg("-Wl,-soname,libcuda.so.1")
        .arg("-I")
        .arg(&kernels)
        .arg("-o")
        .arg(&built)
        .args(["emulated/driver.cpp", "emulated/fibers.cpp"].map(|source| kernels.join(source)))
        .output()
        .unwrap_or_else(|error| panic!("no C++ compiler: cannot run {compiler} (CXX names another): {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&built, folder.join("libcuda.so.1")).expect("the library can be moved");
    folder
});

/// A folder in which the driver's library is none, for machines that have a driver.
static BROKEN: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("no-cuda");
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    for name in ["libcuda.so", "libcuda.so.1"] {
        std::fs::write(folder.join(name), "not a library").expect("the file can be written");
    }
    folder
});

fn run(libraries: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(BINARY)
        .args(args)
        .env("LD_LIBRARY_PATH", libraries)
        .output()
        .expect("the binary runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// A deployment whose large model runs on the first GPU, and more lines.
fn deployment(more: &str) -> PathBuf {
    let text = format!(
        "name = \"tiny\"\n\
         [[models]]\nname = \"small\"\nsource = \"embedded:tiny/small\"\n\
         [[models]]\nname = \"large\"\nsource = \"embedded:tiny/large\"\ndevice = \"cuda:0\"\n\
         [policy]\nplugin = \"r-stitch\"\n{more}\n"
    );
    file("gpu.toml", &text)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

#[test]
fn without_a_driver_the_error_says_what_was_looked_for_and_what_to_do() {
    let path = deployment("");
    for args in [&["--config", text(&path)][..], &["gpu-check"]] {
        let (code, _, stderr) = run(&BROKEN, args);
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        for part in [
            "cuda:0",
            "no NVIDIA driver",
            "libcuda.so.1",
            "Install the NVIDIA driver",
            "device = \"cpu\"",
        ] {
            assert!(stderr.contains(part), "{args:?}: {part:?} is not in {stderr:?}");
        }
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    }
    let (_, _, stderr) = run(&BROKEN, &["--config", text(&path)]);
    assert!(stderr.contains("model \"large\""), "{stderr}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let (code, _, stderr) = run(&EMULATED, &["gpu-check", "--device", "cuda:7"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.contains("cuda:7: the driver knows 1 devices, numbered from 0"),
        "{stderr}"
    );
}

#[test]
fn a_pool_that_does_not_fit_is_refused_with_its_numbers() {
    let path = deployment("[limits]\nkv_tokens = 1_000_000");
    let (code, _, stderr) = run(&EMULATED, &["--config", text(&path)]);
    assert_eq!(code, Some(2), "{stderr}");
    for part in [
        "cuda:0",
        "limits.kv_tokens is 1000000",
        "MiB at large together",
        "tokens would fit",
    ] {
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}

fn all_claims_hold(part: &str) {
    let (code, stdout, stderr) = run(&EMULATED, &["gpu-check", "--only", part]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(stdout.contains("all that must hold holds"), "{stdout}");
}

#[test]
fn every_variant_of_the_matrix_product_gives_the_same_bits() {
    all_claims_hold("products");
}

/// Logits against the CPU's; the same bits in any batch, in pieces, and in graphs; signals and draws as on the host.
#[test]
fn the_kernels_compute_what_the_cpu_does_whatever_the_batch() {
    all_claims_hold("models");
}

/// Every kind of head against the CPU's; the same bits in any batch and in graphs, whoever chose the candidates.
#[test]
fn scores_of_heads_are_the_cpus_whatever_the_batch() {
    all_claims_hold("heads");
}

/// The small model's classifier runs beside it on the device, and its scores bring in the large one where it is needed; drawn
/// candidates are scored after the draw.
#[tokio::test]
async fn a_policy_with_a_head_routes_by_scores_from_the_device() {
    let path = file(
        "gpu-heads.toml",
        "name = \"tiny\"\n\
         [[models]]\nname = \"small\"\nsource = \"embedded:tiny/small\"\ndevice = \"cuda:0\"\n\
         [[models]]\nname = \"large\"\nsource = \"embedded:tiny/large\"\n\
         [[heads]]\nname = \"r2r\"\nmodel = \"small\"\nfile = \"embedded:tiny/r2r\"\n\
         [policy]\nplugin = \"r2r\"\n[policy.options]\nthreshold = 0.01\n",
    );
    let variables = [("LD_LIBRARY_PATH", EMULATED.as_os_str())];
    let server = Server::start_with(&["--config", text(&path)], &variables);
    let body = |temperature: f64| json!({ "model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": temperature, "seed": 1 });
    let (greedy, drawn) = (body(0.0), body(0.3));
    for reply in [server.complete(&greedy).await, server.complete(&drawn).await] {
        let answer = reply.json();
        assert_eq!(
            answer["choices"][0]["text"], "23*03=69;69-98=71;71-37=34;34*05=70;A70",
            "{answer}"
        );
        let by_model = &answer["usage"]["tokenrouter"]["tokens_by_model"];
        for model in ["small", "large"] {
            assert!(by_model[model].as_u64().is_some_and(|tokens| tokens > 0), "{answer}");
        }
    }
}

/// The answer is right, which takes both models, and it takes handoffs between a CPU and a device.
#[tokio::test]
async fn a_deployment_answers_with_one_model_on_the_cpu_and_one_on_the_device() {
    let path = deployment("[policy.options]\nunit = \"nats\"\nthreshold = 0.2");
    let variables = [("LD_LIBRARY_PATH", EMULATED.as_os_str())];
    let server = Server::start_with(&["--config", text(&path)], &variables);
    let body = json!({ "model": "tiny", "prompt": "23*03-98-37*05=", "max_tokens": 64, "temperature": 0 });
    let (one, other) = tokio::join!(server.complete(&body), server.complete(&body));
    for reply in [one, other] {
        let answer = reply.json();
        assert_eq!(
            answer["choices"][0]["text"], "23*03=69;69-98=71;71-37=34;34*05=70;A70",
            "{answer}"
        );
        let written = answer["usage"]["tokenrouter"]["tokens_by_model"]["large"].as_u64();
        assert!(written.is_some_and(|tokens| tokens > 0), "{answer}");
    }
}
