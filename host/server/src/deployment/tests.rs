//! What a deployment file may say, and what it is told when it says something else.

use std::path::Path;

use tokenrouter_engine::{FailureMode, LaunchRule};

use super::{BUILT_IN, DeploymentFile, OptionValue};

const MINIMAL: &str = "name = \"d\"\n[[models]]\nname = \"m\"\nsource = \"embedded:tiny/small\"\n";

fn parse(text: &str) -> Result<DeploymentFile, String> {
    DeploymentFile::parse(text, "d.toml", Path::new("/base")).map_err(|error| error.to_string())
}

#[test]
fn the_built_in_deployment_is_two_models_under_r_stitch_at_0_2_nats() {
    let file = DeploymentFile::built_in().unwrap();
    assert_eq!(file.name, "tiny");
    assert_eq!(
        file.models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(),
        ["small", "large"]
    );
    assert_eq!(file.policy.plugin, "r-stitch");
    assert_eq!(file.policy.options["threshold"], OptionValue::Number(0.2));
    assert_eq!(file.policy.options["unit"], OptionValue::Text("nats".to_owned()));
}

/// `# key = value` in the built-in file shows a default, so writing it out must change nothing.
#[test]
fn the_defaults_in_the_comments_are_the_defaults() {
    let mut written_out = 0;
    let text: Vec<&str> = BUILT_IN
        .lines()
        .map(
            |line| match line.strip_prefix("# ").filter(|rest| is_assignment(rest)) {
                Some(rest) => {
                    written_out += 1;
                    rest
                }
                None => line,
            },
        )
        .collect();
    assert_eq!(parse(&text.join("\n")).unwrap(), parse(BUILT_IN).unwrap());
    assert!(written_out >= 36, "only {written_out} comments were taken for defaults");
}

fn is_assignment(text: &str) -> bool {
    text.split_once(" = ")
        .is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
}

#[test]
fn the_deployment_of_three_models_reads() {
    let file = parse(include_str!("../../../../config/tiny-three.toml")).unwrap();
    assert_eq!(file.models.len(), 3);
    assert_eq!(
        file.failure_mode().unwrap(),
        FailureMode::Fallback(tokenrouter_core::ModelIndex(2))
    );
}

/// Models, policy and its numbers as published, and options that the policy takes for these models and heads.
#[test]
fn the_deployments_of_published_pairs_are_as_published() {
    let qwen3 = |sizes: &[&str]| {
        sizes
            .iter()
            .map(|size| format!("hf://Qwen/Qwen3-{size}"))
            .collect::<Vec<_>>()
    };
    let r1 = ["1.5B", "32B"].map(|size| format!("hf://deepseek-ai/DeepSeek-R1-Distill-Qwen-{size}"));
    let threshold = |value| ("threshold", OptionValue::Number(value));
    let weights = OptionValue::Numbers(vec![0.5, 0.3, 0.2]);
    for (text, sources, plugin, (option, value)) in [
        (
            include_str!("../../../../config/qwen3-0.6b-8b.toml"),
            qwen3(&["0.6B", "8B"]),
            "r2r",
            threshold(0.5),
        ),
        (
            include_str!("../../../../config/qwen3-0.6b-32b.toml"),
            qwen3(&["0.6B", "32B"]),
            "r2r",
            threshold(0.5),
        ),
        (
            include_str!("../../../../config/qwen3-1.7b-8b.toml"),
            qwen3(&["1.7B", "8B"]),
            "r2r",
            threshold(0.5),
        ),
        (
            include_str!("../../../../config/qwen3-4b-8b.toml"),
            qwen3(&["4B", "8B"]),
            "r2r",
            threshold(0.5),
        ),
        (
            include_str!("../../../../config/qwen3-me.toml"),
            qwen3(&["0.6B", "8B", "32B"]),
            "me",
            ("weights", weights),
        ),
        (
            include_str!("../../../../config/r1-distill-qwen-1.5b-32b.toml"),
            r1.to_vec(),
            "r2r",
            threshold(0.406),
        ),
    ] {
        let file = parse(text).unwrap();
        let found: Vec<String> = file.models.iter().map(|model| model.source.to_string()).collect();
        assert_eq!((found, file.policy.plugin.as_str()), (sources, plugin));
        assert_eq!(file.policy.options[option], value, "{}", file.name);
        for model in &file.models {
            let pull = format!("models pull {}", model.source.to_string().trim_start_matches("hf://"));
            assert!(text.contains(&pull), "{}: nothing says {pull}", file.name);
        }
        let deployment = tokenrouter_policy::Deployment {
            name: file.name.clone(),
            models: (file.models.iter())
                .map(|model| tokenrouter_policy::ModelFacts {
                    name: model.name.clone(),
                    parameters: 0,
                    vocabulary: 151_936,
                })
                .collect(),
            heads: (file.heads.iter())
                .map(|head| tokenrouter_policy::HeadFacts {
                    name: head.name.clone(),
                    model: file.head_model(&head.name, &head.model).unwrap(),
                })
                .collect(),
        };
        let bytes = super::EMBEDDED_POLICIES
            .iter()
            .find(|(name, _)| *name == plugin)
            .unwrap()
            .1;
        super::configure(plugin.to_owned(), bytes, &deployment, &file.policy.options).unwrap();
    }
}

#[test]
fn what_is_not_written_has_its_default() {
    let file = parse(MINIMAL).unwrap();
    assert_eq!(file.policy.plugin, "none");
    assert_eq!(file.launch.rule.0, LaunchRule::Lookahead);
    assert_eq!(file.server.listen, "127.0.0.1:30000");
    assert_eq!(file.limits.engine(16_384), tokenrouter_engine::EngineLimits::default());
}

#[test]
fn errors_name_file_line_column_and_what_would_be_right() {
    for (addition, message) in [
        (
            "[policy]\nplugn = \"x\"\n",
            "d.toml:6:1: unknown field `plugn`, expected one of `plugin`, `on_failure`, `options`, `request_options`, `limits`",
        ),
        (
            "[launch]\nrule = \"fast\"\n",
            "d.toml:6:8: \"fast\" is not a launch rule; they are eager, threshold, threshold:B0,B1,..., lookahead, step-sync and model-sync",
        ),
        (
            "[limits]\nrows_max = 0\n",
            "d.toml:6:12: 0 is out of range: it must be 1 to 65536",
        ),
        (
            "[limits]\nkv_tokens = \"many\"\n",
            "d.toml:6:13: invalid type: string \"many\", expected i64",
        ),
        (
            "[policy]\non_failure = \"retry\"\n",
            "d.toml:6:14: \"fail\", \"stay\" or { fallback = \"MODEL\" }",
        ),
        (
            "[[models]]\nname = \"n\"\nsource = \"embedded:huge\"\n",
            "d.toml:7:10: \"embedded:huge\" is not a model of this binary; they are \"embedded:tiny/small\", \
             \"embedded:tiny/middle\", \"embedded:tiny/large\"",
        ),
        (
            "[[models]]\nname = \"n\"\nsource = \"hf://Qwen3-0.6B\"\n",
            "d.toml:7:10: \"hf://Qwen3-0.6B\" is no repository: write ORG/NAME as in Qwen/Qwen3-0.6B, with @REVISION behind the \
             name for a branch, tag or commit, and /FILE.gguf behind that for one GGUF file",
        ),
        (
            "[[models]]\nname = \"m\"\nsource = \"x\"\n",
            "d.toml: two models are named \"m\"; names of models must differ",
        ),
        (
            "[policy]\non_failure = { fallback = \"x\" }\n",
            "d.toml: policy.on_failure falls back to model \"x\"; the models are m",
        ),
        (
            "[[heads]]\nname = \"h\"\nmodel = \"x\"\nfile = \"f\"\n",
            "d.toml: head \"h\" is for model \"x\"; the models are m",
        ),
        (
            "[[heads]]\nname = \"h h\"\nmodel = \"m\"\nfile = \"f\"\n",
            "d.toml: a head's name is \"h h\"; it must be 1 to 64 ASCII letters, digits, `.`, `_` or `-`",
        ),
        (
            "[[heads]]\nname = \"h\"\nmodel = \"m\"\n",
            "d.toml:5:1: missing field `file`",
        ),
        (
            "[[models]]\nname = \"a/b\"\nsource = \"x\"\n",
            "d.toml: a model's name is \"a/b\"; it must be 1 to 64 ASCII letters, digits, `.`, `_` or `-`",
        ),
    ] {
        assert_eq!(parse(&format!("{MINIMAL}{addition}")).unwrap_err(), message);
    }
    assert!(
        parse("name = \n").unwrap_err().starts_with("d.toml:1:8: "),
        "{}",
        parse("name = \n").unwrap_err()
    );
}

fn load(text: &str) -> String {
    let file = parse(text).unwrap();
    match file.load() {
        Ok(_) => panic!("it loads, although it should not: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_does_not_fit_together_is_refused_when_it_is_loaded() {
    let pair = format!("{MINIMAL}[[models]]\nname = \"n\"\nsource = \"embedded:tiny/large\"\n");
    for (text, message) in [
        (
            MINIMAL.replace("embedded:tiny/small", "nowhere"),
            "model \"m\": there is no folder /base/nowhere",
        ),
        (
            format!("{pair}[policy]\nplugin = \"r2d2\"\n"),
            "there is no policy \"r2d2\": no file /base/r2d2, and the built-in ones are citer, co-llm, glimprouter, me, \
             r-stitch, r2r, random, request-level; \"none\" serves without a policy",
        ),
        (
            format!("{pair}[policy.options]\nthreshold = 1\n"),
            "policy options were given (threshold), but the deployment has no policy; leave them out or name a plugin",
        ),
        (
            format!("{pair}[policy]\nplugin = \"random\"\noptions = {{ treshold = 1 }}\n"),
            "policy \"random\": unknown option `treshold`; the policy has share, small, large",
        ),
        (
            format!("{pair}[policy]\nplugin = \"random\"\noptions = {{ share = 2 }}\n"),
            "policy \"random\": the policy refuses its configuration: option \"share\" is 2; it must be between 0 and 1",
        ),
        (
            format!("{MINIMAL}[policy]\nplugin = \"random\"\n"),
            "policy \"random\": the policy refuses its configuration: deployment \"d\" has one model",
        ),
    ] {
        // A policy's own words may go on; the host's are whole.
        assert!(
            load(&text).starts_with(message),
            "expected {message:?}, got {:?}",
            load(&text)
        );
    }
}

#[test]
fn the_built_in_deployment_loads() {
    let loaded = DeploymentFile::built_in().unwrap().load().unwrap();
    assert_eq!(loaded.models.len(), 2);
    assert_eq!(loaded.policies[0].name, "r-stitch");
    let given: Vec<_> = loaded.policies[0]
        .options
        .iter()
        .filter(|option| option.given)
        .map(|option| &option.name)
        .collect();
    assert_eq!(given, ["threshold", "unit"]);
}

/// `--plugin r2r` and its like must work without any file.
#[test]
fn heads_of_the_binary_are_small_and_trained_and_their_policies_load() {
    for plugin in ["r2r", "citer", "co-llm"] {
        let mut file = DeploymentFile::built_in().unwrap();
        file.policy.plugin = plugin.to_owned();
        file.policy.options.clear();
        let loaded = file.load().unwrap();
        assert_eq!(loaded.policies[0].name, plugin);
        let head = loaded.heads.iter().find(|head| head.name == plugin).unwrap();
        assert!(head.header.trained && head.header.threshold.is_some(), "{head:?}");
        assert!(loaded.heads.iter().map(|head| head.parameters).sum::<u64>() * 4 < 1_000_000);
    }
}
