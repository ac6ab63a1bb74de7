//! What holds of the policy set, and of the state directory however its writer ends.

mod crash;
mod set;
mod store;
