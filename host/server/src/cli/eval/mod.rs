//! `tokenrouter-host eval`: what routing is worth on problems with known answers: right answers, share of each model and
//! speed, for policies, values of their options and launch rules.

mod args;
mod grid;
mod measure;
mod report;

use anyhow::Context as _;
use serde::Serialize;

pub(super) use self::args::{EVAL_EXAMPLES, EvalArgs};

use self::grid::PolicySpec;
use self::measure::{Asker, Point};
use super::measure::Problem;
use super::{Failure, logging, output};

/// What stands for a problem's text in `--template`.
const PROMPT: &str = "{prompt}";

/// The result, as JSON has it.
#[derive(Serialize)]
struct Evaluation {
    problems: usize,
    models: Vec<String>,
    points: Vec<Point>,
}

/// Measures everything, then prints and draws.
pub(super) fn run(args: &EvalArgs) -> Result<(), Failure> {
    logging::start(&args.log, logging::Format::Text).map_err(Failure::Asked)?;
    let mut problems = Problem::read(args.problems.as_deref())
        .context("--problems")
        .map_err(Failure::Asked)?;
    problems.truncate(args.limit.unwrap_or(usize::MAX));
    let random = random(args).map_err(Failure::Asked)?;
    if !args.template.contains(PROMPT) {
        let why = anyhow::anyhow!(
            "--template is {:?}; it has no {PROMPT}, which a problem's text takes the place of",
            args.template
        );
        return Err(Failure::Asked(why));
    }
    // Measuring takes minutes: what it cannot end with is told before.
    if let Some(file) = &args.plot {
        file.check().map_err(Failure::Asked)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::other)?;
    let asker = Asker {
        args,
        problems: &problems,
        runtime: &runtime,
    };
    let (evaluation, baseline) = evaluate(&asker, random.as_ref()).map_err(Failure::Other)?;
    if let Some(file) = &args.plot {
        let chart = report::picture(&evaluation.points, &baseline, evaluation.problems);
        file.write(&chart).map_err(Failure::Asked)?;
    }
    if args.json {
        let text = serde_json::to_string_pretty(&evaluation).map_err(Failure::other)?;
        return output::print(&format!("{text}\n"));
    }
    let table = report::table(&evaluation.points, &evaluation.models);
    output::print(&format!("{} problems\n\n{table}", evaluation.problems))
}

/// Random routing at the wanted shares, unless it is left out.
fn random(args: &EvalArgs) -> anyhow::Result<Option<PolicySpec>> {
    if args.random == "none" {
        return Ok(None);
    }
    let shares = grid::numbers(&args.random).map_err(|why| anyhow::anyhow!("--random: {why}"))?;
    if let Some(wrong) = shares.iter().find(|share| !(0.0..=1.0).contains(*share)) {
        anyhow::bail!("--random: {wrong} is not a share; write numbers from 0 to 1");
    }
    Ok(Some(PolicySpec::varying(report::RANDOM, "share", shares)))
}

/// All points, and those of them that others are compared with.
fn evaluate(asker: &Asker<'_>, random: Option<&PolicySpec>) -> anyhow::Result<(Evaluation, Vec<Point>)> {
    let running = asker.without_policy()?;
    for spec in &asker.args.policies {
        asker
            .check(&running, spec)
            .with_context(|| format!("--policy {spec}"))?;
    }
    let models = running.names().to_vec();
    let mut points = Vec::new();
    for model in 0..models.len() {
        points.push(asker.alone(&running, model)?);
    }
    drop(running);
    // Models between the first and the last are no ends of the line of random routing.
    let mut baseline: Vec<Point> = [points.first(), points.last()].into_iter().flatten().cloned().collect();
    if let Some(random) = random.filter(|_| models.len() == 2) {
        let measured = asker.policy(Some(random))?;
        baseline.extend(measured.iter().cloned());
        points.extend(measured);
    }
    let mut routed = Vec::new();
    match asker.args.policies.as_slice() {
        [] => routed.extend(asker.policy(None)?),
        specs => {
            for spec in specs {
                routed.extend(asker.policy(Some(spec)).with_context(|| format!("--policy {spec}"))?);
            }
        }
    }
    report::compare(&mut routed, &baseline);
    points.extend(routed);
    let evaluation = Evaluation {
        problems: asker.problems.len(),
        models,
        points,
    };
    Ok((evaluation, baseline))
}
