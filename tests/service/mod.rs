//! What an operator sees of the server and an attacker can do to it: keys, health, metrics, the API's description, clients that
//! are slow or vanish, and models that break. Reports of other servers' users are tests named after them.

mod access;
mod clients;
mod faulty;
mod life;
mod metrics;
mod openapi;
mod raw;
mod restart;
mod schema;
mod table;
mod tls;
