//! Whole-program tests: the real binary over real HTTP, with real components and real model files. One program for all,
//! because linking the host takes longer than most of them; `cargo test --release --test program swap::` runs those of one file.

mod common;

mod admin;
mod answers;
mod assumed;
mod chat;
mod client;
mod errors;
mod faults;
mod fields;
mod fuzz_corpus;
mod gpu;
mod grammar;
mod heads;
mod hostile;
mod life;
mod matrices;
mod mistakes;
mod models;
mod optimistic;
mod plan;
mod policy_cli;
mod prefix;
mod reference;
mod reported;
mod schedule;
mod service;
mod start;
mod streams;
mod swap;
mod terminal;
mod trade_off;
mod watching;
