//! Real components in the real engine: what is refused, what is contained, what is answered.

mod calls;
mod component;
mod conformance;
mod faults;
mod load;
mod log;
mod plan;
mod shipped;
