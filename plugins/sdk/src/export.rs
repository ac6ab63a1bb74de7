//! The glue between a [`Policy`] and the component's exports.

use std::panic::{PanicHookInfo, set_hook};
use std::sync::Once;

use crate::{Declared, Description, Level, Policy, log};

/// The contract's `describe`, from [`Policy::ABOUT`].
pub fn describe<P: Policy>() -> Description {
    let about = P::ABOUT;
    Description {
        name: about.name.into(),
        version: about.version.into(),
        summary: about.summary.into(),
        options: about.options.iter().map(|option| Declared::info(*option)).collect(),
    }
}

/// Makes a panic say its message in the host's log before it traps; a trap alone says only where.
pub fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_hook(Box::new(|info: &PanicHookInfo<'_>| {
            log(Level::Error, &info.to_string());
        }));
    });
}

/// Makes the component's exports from a type that implements [`Policy`]. Once in a crate. Off Wasm it only checks
/// that the type is a policy.
#[macro_export]
macro_rules! export {
    ($policy:ty) => {
        const _: () = {
            const fn is_policy<P: $crate::Policy>() {}
            is_policy::<$policy>();
        };

        #[cfg(target_arch = "wasm32")]
        mod component {
            use std::sync::OnceLock;

            use $crate::{
                Admission, Batch, Decisions, Deployment, Description, ModelIndex, Options, Parcel, Plan, Policy,
                Request, Setting, StateWord, Step, bindings,
            };

            use super::*;

            type Chosen = $policy;

            /// Written by `init` and only read afterwards.
            static POLICY: OnceLock<Chosen> = OnceLock::new();

            fn policy() -> &'static Chosen {
                POLICY.get().expect("init was not called, or refused its arguments")
            }

            struct Component;

            impl bindings::Guest for Component {
                fn describe() -> Description {
                    $crate::describe::<Chosen>()
                }

                fn init(deployment: Deployment, config: Vec<Setting>) -> Result<Plan, String> {
                    $crate::install_panic_hook();
                    let options = Options::read(Chosen::ABOUT.options, config)?;
                    let policy = Chosen::init(&deployment, &options)?;
                    let plan = policy.plan().clone();
                    POLICY.set(policy).map_err(|_| "init was called twice in one instance".to_owned())?;
                    Ok(plan)
                }

                fn admit(request: Request) -> Result<Admission, String> {
                    let mut request = request;
                    let given = core::mem::take(&mut request.options);
                    let options = Options::read_request(Chosen::ABOUT.options, given)?;
                    policy().admit(&request, &options)
                }

                fn route(at: ModelIndex, batch: Batch) -> Decisions {
                    policy().route_batch(at, batch)
                }

                fn send(at: ModelIndex, to: ModelIndex, step: Step) -> Parcel {
                    policy().send(at, to, step)
                }

                fn receive(at: ModelIndex, from: ModelIndex, parcel: Parcel) -> Vec<StateWord> {
                    policy().receive(at, from, parcel)
                }
            }

            bindings::export_component!(Component with_types_in bindings);
        }
    };
}
