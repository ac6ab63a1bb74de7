//! What `serve` does for the admin side: its arguments, its listener, and the thread that looks after the policies.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use tokenrouter_host::admin::{AdminListenError, AdminServer};
use tokenrouter_host::deployment::{DeploymentFile, EMBEDDED_POLICIES, NO_PLUGIN};
use tokenrouter_host::http::{App, Keys};
use tokenrouter_host::policies::{Keeper, Watch};

use super::Failure;

/// Where the admin API listens if it is asked for without an address.
const LISTEN: &str = "127.0.0.1:30001";

/// The variable with an admin key.
const KEY_VARIABLE: &str = "TOKENROUTER_ADMIN_KEY";

/// Options of `serve` for the admin side. Each wins over the deployment file.
#[derive(Debug, Args)]
pub(super) struct AdministrationArgs {
    /// Offer the admin API at this address [default: the deployment's; if a key is named without an address, 127.0.0.1:30001]
    #[arg(long, value_name = "HOST:PORT")]
    admin_listen: Option<String>,
    /// File of the admin keys, one a line as KEY or as NAME KEY. A key in the environment variable TOKENROUTER_ADMIN_KEY
    /// counts as well
    #[arg(long, value_name = "FILE")]
    admin_key_file: Option<PathBuf>,
    /// Offer the admin API without a key, to everybody who can use this machine. Only at a loopback address
    #[arg(long)]
    admin_without_key: bool,
    /// Folder in which uploaded policies and what serves survive a restart, with the audit log
    #[arg(long, value_name = "FOLDER")]
    state_dir: Option<PathBuf>,
    /// Load the policy's file anew whenever it changes
    #[arg(long)]
    pub(super) watch: bool,
}

impl AdministrationArgs {
    pub(super) fn apply(self, file: &mut DeploymentFile) {
        // A path on the command line counts from the working directory.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let admin = &mut file.admin;
        if let Some(path) = self.admin_key_file {
            admin.key_file = Some(absolute(path));
            admin.listen.get_or_insert(LISTEN.to_owned());
        }
        if self.admin_without_key {
            admin.without_key = true;
            admin.listen.get_or_insert(LISTEN.to_owned());
        }
        if let Some(listen) = self.admin_listen {
            admin.listen = Some(listen);
        }
        if let Some(folder) = self.state_dir {
            admin.state_dir = Some(absolute(folder));
        }
    }
}

/// The admin side while the server runs.
pub(super) struct Administration {
    /// Where the admin API listens, if it does.
    pub(super) listening: Option<SocketAddr>,
    _keeper: Keeper,
}

/// Starts the admin side. Called within the runtime that is to serve it.
pub(super) async fn start(file: &DeploymentFile, app: &Arc<App>, watch: bool) -> Result<Administration, Failure> {
    let watch = if watch {
        Some(watched(file, app).map_err(Failure::Asked)?)
    } else {
        None
    };
    let listening = match &file.admin.listen {
        Some(listen) => {
            let keys = keys(file).map_err(Failure::Asked)?;
            let server = AdminServer::bind(app.clone(), listen, keys, file.admin.without_key).await;
            let server = server.map_err(|error| match error {
                AdminListenError::InUse { .. } => Failure::other(error),
                _ => Failure::asked(error),
            })?;
            let local = server.local_addr();
            tokio::spawn(server.run());
            Some(local)
        }
        None => None,
    };
    let keeper = Keeper::start(app.manager.clone(), watch).map_err(Failure::other)?;
    Ok(Administration {
        listening,
        _keeper: keeper,
    })
}

/// What can be told of the admin side's files before models are loaded.
///
/// # Errors
/// Keys that cannot be read, or a policy that has no file to watch.
pub(super) fn check(file: &DeploymentFile, watch: bool) -> anyhow::Result<()> {
    if file.admin.listen.is_some() {
        keys(file)?;
    }
    if watch { plugin_file(file).map(drop) } else { Ok(()) }
}

/// The policy's file, if it is one.
fn plugin_file(file: &DeploymentFile) -> anyhow::Result<PathBuf> {
    let plugin = &file.policy.plugin;
    if plugin == NO_PLUGIN || EMBEDDED_POLICIES.iter().any(|(name, _)| name == plugin) {
        anyhow::bail!("--watch needs a policy's file: write --plugin FILE");
    }
    Ok(file.policy.base.as_ref().unwrap_or(&file.base).join(plugin))
}

fn keys(file: &DeploymentFile) -> anyhow::Result<Keys> {
    let mut keys = Keys::default();
    if let Some(path) = &file.admin.key_file {
        keys = Keys::read(&file.base.join(path))?;
    }
    if let Ok(key) = std::env::var(KEY_VARIABLE) {
        keys = keys.and(Keys::parse(&key, KEY_VARIABLE)?);
    }
    Ok(keys)
}

fn watched(file: &DeploymentFile, app: &App) -> anyhow::Result<Watch> {
    let path = plugin_file(file)?;
    let served = app.policies();
    let first = served.first().context("--watch needs a policy")?;
    let loaded = first.digest.parse()?;
    Ok(Watch::new(
        path,
        first.name.clone(),
        file.policy.options.clone(),
        loaded,
    ))
}
