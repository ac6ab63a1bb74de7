//! Trains heads: from what a model computed at positions whose label is known to weights that foresee the label.
//!
//! | file | what it knows |
//! |---|---|
//! | `observer` | what a model computes along a text that is given |
//! | `examples` | positions with their labels, and their division into training and held-out texts |
//! | `network` | the networks of `super::network` with gradients |
//! | `adam` | the optimiser |
//! | `fit` | epochs, held-out loss, checkpoints |
//! | `score` | loss, recall and precision, and the threshold for a wanted recall or share |
//!
//! Everything is a function of examples, header and seed: no clock, and random numbers that are keyed.

mod adam;
mod examples;
mod fit;
mod network;
mod observer;
mod score;

pub use examples::{Example, Examples};
pub use fit::{Checkpoint, Epoch, FitOptions, Fitted, fit};
pub use observer::{Observation, Observer};
pub use score::{Confusion, Scored};
