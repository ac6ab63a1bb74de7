//! A conversation with a host: whom is asked and how, what was said, and what it has cost.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tokenrouter_host::deployment::OptionValue;
use tokenrouter_policy::Setting;

use super::args::ChatArgs;
use super::events::EventReader;
use super::writer::{AnswerWriter, Token, paint};
use crate::cli::connection::Connection;

/// How answers are asked for.
struct Ask {
    raw: bool,
    max_tokens: u32,
    temperature: f64,
    seed: Option<u64>,
    options: BTreeMap<String, OptionValue>,
}

/// What answers have cost so far.
#[derive(Default)]
struct Totals {
    answers: u64,
    tokens: BTreeMap<String, u64>,
    handoffs: u64,
    spent_s: f64,
}

/// A conversation.
pub(super) struct Session {
    connection: Connection,
    info: Value,
    /// In the deployment's order.
    models: Vec<String>,
    /// What `model` may name, the deployment first.
    names: Vec<String>,
    model: String,
    ask: Ask,
    messages: Vec<Value>,
    totals: Totals,
    coloured: bool,
}

impl Session {
    /// Finds out what the host serves.
    pub(super) async fn begin(connection: Connection, args: &ChatArgs, coloured: bool) -> anyhow::Result<Self> {
        let info = connection.json("/info").await?;
        let names = names(&connection.json("/v1/models").await?["data"], "id");
        let deployment = info["deployment"].as_str().context("/info names no deployment")?;
        let mut session = Self {
            models: self::names(&info["models"], "name"),
            model: deployment.to_owned(),
            names,
            info,
            connection,
            ask: Ask {
                raw: args.raw,
                max_tokens: args.max_tokens,
                temperature: args.temperature,
                seed: args.seed,
                options: BTreeMap::new(),
            },
            messages: Vec::new(),
            totals: Totals::default(),
            coloured,
        };
        args.option.iter().cloned().for_each(|setting| session.set(setting));
        if let Some(model) = &args.model {
            session.choose(model)?;
        }
        Ok(session)
    }

    /// Who answers, for the line's beginning.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Asks and writes the answer.
    pub(super) async fn answer(&mut self, text: &str, out: impl Write) -> anyhow::Result<()> {
        let question = json!({ "role": "user", "content": text });
        let (path, body) = self.request(text, &question);
        let start = Instant::now();
        let response = self.connection.send(path, Some(&body)).await?;
        let mut events = EventReader::new(response.into_body());
        let mut writer = AnswerWriter::new(out, &self.models, self.coloured);
        let mut stopped = false;
        while let Some(mut object) = events.next().await? {
            if let Some(usage) = object.get("usage").filter(|usage| !usage.is_null()) {
                self.totals.add(&usage["tokenrouter"]);
            }
            // The last object has the usage and no choice.
            let choice = object.pointer_mut("/choices/0").map(Value::take).unwrap_or_default();
            stopped |= choice["finish_reason"] == "stop";
            if let Some(tokens) = choice.get("attribution") {
                writer.push(Vec::<Token>::deserialize(tokens)?)?;
            }
        }
        let answer = writer.end(stopped)?;
        self.totals.answers += 1;
        self.totals.spent_s += start.elapsed().as_secs_f64();
        if !self.ask.raw {
            self.messages
                .extend([question, json!({ "role": "assistant", "content": answer })]);
        }
        Ok(())
    }

    fn request(&self, text: &str, question: &Value) -> (&'static str, Value) {
        let options: Map<String, Value> = self
            .ask
            .options
            .iter()
            .map(|(name, value)| (name.clone(), value.to_json()))
            .collect();
        let mut body = json!({
            "model": self.model,
            "max_tokens": self.ask.max_tokens,
            "temperature": self.ask.temperature,
            "seed": self.ask.seed,
            "stream": true,
            "stream_options": { "include_usage": true },
            "tokenrouter": { "attribution": true, "options": options },
        });
        if self.ask.raw {
            body["prompt"] = text.into();
            return ("/v1/completions", body);
        }
        body["messages"] = self.messages.iter().chain([question]).cloned().collect();
        ("/v1/chat/completions", body)
    }

    /// Lets another policy or model answer: by its name of `/v1/models`, or by its own.
    ///
    /// # Errors
    /// There is none of that name.
    pub(super) fn choose(&mut self, name: &str) -> anyhow::Result<()> {
        let deployment = &self.names[0];
        let meant = [
            name.to_owned(),
            format!("{deployment}@{name}"),
            format!("{deployment}/{name}"),
        ];
        match meant.into_iter().find(|name| self.names.contains(name)) {
            Some(model) => self.model = model,
            None => bail!("nothing called {name:?} is served; there are {}", self.names.join(", ")),
        }
        Ok(())
    }

    /// Sets an option of the policy.
    pub(super) fn set(&mut self, setting: Setting) {
        self.ask.options.insert(setting.name, OptionValue::from(&setting.value));
    }

    /// Takes an option back.
    ///
    /// # Errors
    /// It was not set.
    pub(super) fn unset(&mut self, name: &str) -> anyhow::Result<()> {
        match self.ask.options.remove(name) {
            Some(_) => Ok(()),
            None => bail!("{name} is not set"),
        }
    }

    /// Begins a new conversation, perhaps in the other mode.
    pub(super) fn clear(&mut self, raw: Option<bool>) {
        self.ask.raw = raw.unwrap_or(self.ask.raw);
        self.messages.clear();
    }

    /// What can answer, and with which options.
    pub(super) fn policies(&self) -> String {
        let mut text = String::new();
        for name in &self.names {
            let mark = if *name == self.model { "*" } else { " " };
            let policy = name.split_once('@').map(|(_, policy)| policy);
            let policies = self.info["policies"].as_array().map_or(&[][..], Vec::as_slice);
            let policy = match policy {
                Some(policy) => policies.iter().find(|it| it["name"] == policy),
                None if !name.contains('/') => policies.first(),
                None => None,
            };
            let about = policy.map(|it| {
                format!(
                    "{}, options {}",
                    it["summary"].as_str().unwrap_or_default(),
                    it["options"]
                )
            });
            let line = format!("{mark} {name}  {}", about.unwrap_or_default());
            text += line.trim_end();
            text.push('\n');
        }
        for (name, value) in &self.ask.options {
            text += &format!("set for these requests: {name} = {}\n", value.to_json());
        }
        text
    }

    /// What answers have cost so far.
    pub(super) fn stats(&self) -> String {
        let totals = &self.totals;
        let written: u64 = totals.tokens.values().sum();
        let mut text = format!(
            "{} answers, {written} tokens, {} handoffs",
            totals.answers, totals.handoffs
        );
        if totals.spent_s > 0.0 {
            text += &format!(", {:.0} tokens/s", written as f64 / totals.spent_s);
        }
        for (place, model) in self.models.iter().enumerate() {
            let tokens = totals.tokens.get(model).copied().unwrap_or(0);
            let share = 100.0 * tokens as f64 / written.max(1) as f64;
            let (begin, end) = paint(place, self.coloured);
            text += &format!("\n{begin}{model}{end}: {tokens} tokens, {share:.1} %");
        }
        text.push('\n');
        text
    }
}

impl Totals {
    fn add(&mut self, routed: &Value) {
        for (model, tokens) in routed["tokens_by_model"].as_object().into_iter().flatten() {
            *self.tokens.entry(model.clone()).or_default() += tokens.as_u64().unwrap_or(0);
        }
        self.handoffs += routed["handoffs"].as_u64().unwrap_or(0);
    }
}

fn names(list: &Value, field: &str) -> Vec<String> {
    let names = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it[field].as_str());
    names.map(str::to_owned).collect()
}
