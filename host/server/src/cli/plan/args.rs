//! Arguments of `plan`.

use std::fmt;

use clap::Args;
use tokenrouter_planner::{PlanError, Routing, System};

use crate::cli::picture::PictureFile;
use crate::cli::workload::{self, Concurrency, Handover, Milliseconds, Weights};

/// Shown below the options.
pub(in crate::cli) const PLAN_EXAMPLES: &str = "\
Example: what should the large model wait for, when 35 % of the small one's steps hand over?
  $ tokenrouter-host plan --latency-ms 6.0,27.9 --p 0.35 --concurrency 1..4
   N    B=1     B=2     B=3     B=4   best B  tokens/s  of bound  over B=1
   1   63.4*                               1      63.4   100.0 %    +0.0 %
   2   99.0   110.3*                       2     110.3    87.0 %   +11.5 %
   3  142.3   158.1*  151.9                2     158.1    83.1 %   +11.1 %
   4  187.2   195.4   208.0*  190.7        3     208.0    82.0 %   +11.1 %

So with 4 requests at a time, serve with --launch threshold:1,3; or with --launch threshold, which
measures and plans while it serves.

More examples:
  tokenrouter-host plan --latency-ms 6.0,27.9 --p 0.35 --concurrency 1..64 --plot plan.svg
      The same up to 64 requests, with a picture.
  tokenrouter-host plan --latency-ms 6.0,27.9 --p 0.2,0.4 --concurrency 8 --json
      r-stitch: the large model hands back after 40 % of its steps.
  tokenrouter-host plan --latency-ms 6,12,27.9 --weights 0.5,0.3,0.2 --concurrency 2,4,6
      Three models that are drawn for every token.

The prediction takes all steps of a model as equally long and hand-overs as independent of all else.
tokenrouter-host simulate knows more.";

/// Options of `plan`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PlanArgs {
    /// How long one step takes at each model, the small one first, in milliseconds; or paper: 6.0,27.9, the
    /// TokenRouter paper's Qwen3-0.6B and 32B
    #[arg(long, value_name = "MS,MS,...", allow_hyphen_values = true)]
    pub(super) latency_ms: Milliseconds,
    #[command(flatten)]
    pub(super) routing: PlannedRouting,
    /// Numbers N of requests that are there at a time: N, A..B (both included), or a list of these
    #[arg(long, value_name = "N", default_value = "1..16", allow_hyphen_values = true)]
    pub(super) concurrency: Concurrency,
    /// Unit that latencies are rounded to, in milliseconds; longer is faster to plan [default: one that the latencies are
    /// multiples of within 0.001 % under one-token hand-back, within 0.5 % under other policies]
    #[arg(long, value_name = "MS", value_parser = workload::quantum_ms, allow_hyphen_values = true)]
    quantum_ms: Option<f64>,
    /// Print every setting as JSON: an array of {"n", "b", "tokens_per_s", "best", "bound_percent"}
    #[arg(long)]
    pub(super) json: bool,
    /// Draw throughput by N for several B and the best B, as SVG or PNG
    #[arg(long, value_name = "FILE.svg|FILE.png")]
    pub(super) plot: Option<PictureFile>,
}

/// How requests move between the models; one of these.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct PlannedRouting {
    /// Two models. P: probability that a step of the small one hands over; the large one then writes one token and hands
    /// back (R2R, CITER, Co-LLM, random). P,Q: it goes on until it hands back with probability Q (r-stitch)
    #[arg(long, value_name = "P[,Q]", allow_hyphen_values = true)]
    p: Option<Handover>,
    /// Any number of models that are drawn by these weights for every token (ME)
    #[arg(long, value_name = "W,W,...", allow_hyphen_values = true)]
    weights: Option<Weights>,
}

impl PlannedRouting {
    fn matrices(&self) -> Result<Routing, PlanError> {
        match (&self.p, &self.weights) {
            (Some(handover), _) => handover.routing(),
            (None, Some(weights)) => weights.routing(),
            // The group asks for one of them.
            (None, None) => Err(PlanError::NoModels),
        }
    }
}

impl fmt::Display for PlannedRouting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.p.iter().try_for_each(|handover| handover.fmt(f))?;
        self.weights.iter().try_for_each(|weights| weights.fmt(f))
    }
}

impl PlanArgs {
    /// What is to be planned.
    pub(super) fn system(&self) -> anyhow::Result<System> {
        let explain = |error: PlanError| workload::explain(&error);
        let routing = self.routing.matrices().map_err(explain)?;
        workload::check_models("--latency-ms", self.latency_ms.0.len(), routing.models())?;
        workload::system(&self.latency_ms.0, &routing, self.quantum_ms).map_err(explain)
    }
}
