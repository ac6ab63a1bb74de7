//! A server in this process, with a model that can be told to break.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::Value;
use tokenrouter_core::signal::Signal;
use tokenrouter_core::step::StepBatch;
use tokenrouter_host::deployment::{DeploymentFile, Loaded};
use tokenrouter_host::http::{Access, App, Server as Listener};
use tokenrouter_model::ModelError;
use tokenrouter_model::runner::{ModelInfo, RowAsk, Runner, StepOutput};

use crate::common::{HANG, not_hanging};

/// What is to go wrong at one model.
#[derive(Default)]
pub struct Faults {
    /// Steps until one panics; the ones after it too, while it is negative.
    steps_until_panic: AtomicI64,
    panics_left: AtomicU32,
    hangs: Mutex<bool>,
    released: Condvar,
}

impl Faults {
    /// The step after so many others panics, and those that follow until there were `panics`.
    pub fn panic_after(&self, steps: u32, panics: u32) {
        self.steps_until_panic.store(steps.into(), Ordering::SeqCst);
        self.panics_left.store(panics, Ordering::SeqCst);
    }

    /// The next step does not come back, until this is called with false.
    pub fn hang(&self, hangs: bool) {
        *self.hangs.lock().expect("whole") = hangs;
        self.released.notify_all();
    }

    fn go_wrong(&self) {
        let hangs = self.hangs.lock().expect("whole");
        drop(self.released.wait_while(hangs, |hangs| *hangs).expect("whole"));
        let due = self.steps_until_panic.fetch_sub(1, Ordering::SeqCst) <= 0;
        let left = |left: u32| left.checked_sub(1);
        if due
            && self
                .panics_left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
                .is_ok()
        {
            panic!("a scripted panic");
        }
    }
}

struct Faulty {
    inner: Box<dyn Runner>,
    faults: Arc<Faults>,
}

impl Runner for Faulty {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn allocate(&mut self, blocks: usize) -> Result<(), ModelError> {
        self.inner.allocate(blocks)
    }

    fn step(
        &mut self,
        batch: &StepBatch,
        asks: &[RowAsk<'_>],
        plans: &[Vec<Signal>],
        out: &mut StepOutput,
    ) -> Result<(), ModelError> {
        self.faults.go_wrong();
        self.inner.step(batch, asks, plans, out)
    }
}

/// The built-in deployment with small and large model under a script.
pub struct FaultyServer {
    pub url: String,
    pub small: Arc<Faults>,
    pub large: Arc<Faults>,
    client: reqwest::Client,
    _runtime: tokio::task::AbortHandle,
}

impl FaultyServer {
    pub async fn start(plugin: &str, stall_us_max: u64) -> Self {
        let mut file = DeploymentFile::built_in().expect("the built-in deployment");
        file.server.listen = "127.0.0.1:0".to_owned();
        plugin.clone_into(&mut file.policy.plugin);
        if plugin != "r-stitch" {
            file.policy.options.clear();
        }
        let mut loaded = file.load().expect("models");
        loaded.parts.limits.stall_us_max = stall_us_max;
        let mut faults = Vec::new();
        loaded.parts.models = loaded
            .parts
            .models
            .into_iter()
            .map(|mut model| {
                let script = Arc::new(Faults::default());
                faults.push(script.clone());
                let inner = model.runner;
                model.runner = Box::new(Faulty { inner, faults: script });
                model
            })
            .collect();
        let listener = Listener::bind(file.server.clone(), Access::default())
            .await
            .expect("an address");
        let url = format!("http://{}", listener.local_addr());
        listener.gate().open(start(&file, loaded), &Access::default());
        let serving = tokio::spawn(listener.run(std::future::pending(), std::future::pending()));
        let [small, large] = faults.try_into().map_err(|_| ()).expect("two models");
        Self {
            url,
            small,
            large,
            client: reqwest::Client::builder().timeout(HANG).build().expect("a client"),
            _runtime: serving.abort_handle(),
        }
    }

    /// Status and body of an answer, whatever it is.
    pub async fn complete(&self, body: &Value) -> (u16, Value) {
        let request = self.client.post(format!("{}/v1/completions", self.url)).json(body);
        let response = not_hanging("a request", request.send()).await.expect("a response");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        get(&self.url, path).await
    }

    /// Waits until `/info` fulfils the condition.
    pub async fn wait(&self, what: &str, condition: impl Fn(&Value) -> bool) {
        let waiting = async {
            while !condition(&self.get("/info").await.1) {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        not_hanging(what, waiting).await;
    }
}

pub async fn get(url: &str, path: &str) -> (u16, Value) {
    let client = reqwest::Client::builder().timeout(HANG).build().expect("a client");
    let response = client.get(format!("{url}{path}")).send().await.expect("a response");
    (response.status().as_u16(), response.json().await.expect("JSON"))
}

/// An engine behind the API.
pub fn start(file: &DeploymentFile, loaded: Loaded) -> Arc<App> {
    Arc::new(App::start(file, loaded).expect("an engine"))
}
