//! Time of heads per step: with the default deployment's small model, and for a classifier of the published sizes.

use std::hint::black_box;

use candle_core::{Device, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tokenrouter_model::heads::{
    Activation, FORMAT, Head, HeadHeader, HeadInput, HeadKind, HeadModel, HeadStep, HeadTarget, Network, random,
};

const ROWS: [usize; 3] = [1, 8, 64];

fn header(kind: HeadKind, target: HeadTarget, network: Network) -> HeadHeader {
    let everything = kind == HeadKind::R2r;
    HeadHeader {
        format: FORMAT,
        kind,
        model: HeadModel {
            hidden_size: Some(target.hidden_size),
            ..HeadModel::default()
        },
        inputs: match everything {
            true => vec![HeadInput::Hidden, HeadInput::Token, HeadInput::Logits],
            false => vec![HeadInput::Hidden],
        },
        top_logits: everything.then_some(target.vocabulary.min(100)),
        network,
        threshold: None,
        trained: false,
        source: String::new(),
    }
}

fn mlp(dims: Vec<usize>) -> Network {
    let activation = (!dims.is_empty()).then_some(Activation::Relu);
    Network::Mlp { dims, activation }
}

fn classifier(width: usize) -> Network {
    Network::Classifier {
        dims: vec![width; 6],
        expansion: 4,
        classes: 1,
        normalize_input: false,
    }
}

fn matrix(rows: usize, columns: usize) -> Tensor {
    let data = (0..rows * columns).map(|i| (i as f32 * 0.37).sin()).collect();
    Tensor::from_vec(data, (rows, columns), &Device::Cpu).expect("the shape is right")
}

fn heads(c: &mut Criterion) {
    let tiny = HeadTarget {
        hidden_size: 128,
        vocabulary: 64,
    };
    let published = HeadTarget {
        hidden_size: 1024,
        vocabulary: 151_936,
    };
    for (name, target, kind, network) in [
        ("tiny/r2r", tiny, HeadKind::R2r, classifier(128)),
        ("tiny/citer", tiny, HeadKind::Citer, mlp(vec![256])),
        ("tiny/co-llm", tiny, HeadKind::CoLlm, mlp(Vec::new())),
        ("hidden 1024/r2r", published, HeadKind::R2r, classifier(1024)),
        ("hidden 1024/citer", published, HeadKind::Citer, mlp(vec![2048])),
        ("hidden 1024/co-llm", published, HeadKind::CoLlm, mlp(Vec::new())),
    ] {
        let file = random(header(kind, target, network), 1).expect("the header is right");
        let head = Head::new(file, target).expect("the head fits");
        // A small part of the table is enough: only the candidates' rows are read.
        let embedding = matrix(64, target.hidden_size);
        let mut group = c.benchmark_group(format!("heads/{name}"));
        group.sample_size(10);
        for rows in ROWS {
            let (hidden, candidates) = (matrix(rows, target.hidden_size), vec![3; rows]);
            let logits: Vec<f32> = (0..rows * target.vocabulary)
                .map(|i| (i as f32 * 0.61).sin() * 9.0)
                .collect();
            let step = HeadStep {
                hidden: &hidden,
                embedding: &embedding,
                logits: &logits,
                candidates: &candidates,
            };
            let all: Vec<u32> = (0..rows as u32).collect();
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(rows.to_string(), |b| {
                b.iter(|| head.scores(black_box(&step), &all).expect("the step is right"));
            });
        }
    }
}

criterion_group!(benches, heads);
criterion_main!(benches);
