//! Runs the scenarios, and judges the rules.

use std::time::Duration;

use tokio::time::sleep;

use super::client::{Client, OwnKey};
use super::convention::Convention;
use super::effect::Effect;
use super::report::{Finding, Report};
use super::rule::{Rule, Verdict};
use super::rules::keys::{FIRST, NO_KEY, TWO_KEYS};
use super::rules::rules_of;
use super::scenario::{Need, Scenario, Shape, Step, TRIES};
use super::seen::{Reply, Seen};
use super::target::Target;
use crate::args::Probe;
use crate::exit::Failure;
use crate::progress::Progress;

/// The status of a service that limits requests.
const TOO_MANY: u16 = 429;

pub(crate) struct Run<'a> {
    target: &'a Target,
    client: Client<'a>,
    effect: Option<Effect>,
    convention: Convention,
    rules: Vec<&'static Rule>,
    storm: usize,
    /// Whether two runs have different responses.
    has_telling_bodies: bool,
    /// How long a first request takes.
    latency: Duration,
}

impl<'a> Run<'a> {
    pub(crate) fn new(args: &Probe, target: &'a Target) -> Result<Self, Failure> {
        let effect = args.effect_url.as_deref();
        let effect = effect.map(|url| Effect::new(url, &args.effect_json, &target.headers));
        let mut rules = rules_of(args.profile);
        rules.retain(|rule| !(args.optional_key && is(rule.sends, &NO_KEY)));
        Ok(Self {
            target,
            client: Client::new(args, target)?,
            effect: effect.transpose()?,
            convention: args.profile,
            rules,
            storm: usize::from(args.storm),
            has_telling_bodies: false,
            latency: Duration::ZERO,
        })
    }

    /// The most requests, and how often the effect is read.
    pub(crate) fn requests(&self) -> (usize, usize) {
        let scenarios = self.scenarios();
        let possible = scenarios
            .iter()
            .filter(|scenario| self.lacks(scenario).is_none());
        let (mut requests, mut reads) = (0, 0);
        for scenario in possible {
            requests += scenario.requests(self.storm);
            reads += 2;
        }
        if self.client.quotes {
            // The first request again, without quotes.
            requests += FIRST.requests(self.storm);
            reads += 2;
        }
        (requests, if self.effect.is_some() { reads } else { 0 })
    }

    pub(crate) async fn report(&mut self) -> Result<Report, Failure> {
        let mut findings = Vec::new();
        let (scenarios, progress) = (self.scenarios(), Progress::new());
        for (number, scenario) in scenarios.iter().enumerate() {
            let name = scenario.name;
            progress.say(format!("{} of {}: {name}", number + 1, scenarios.len()));
            let seen = match self.lacks(scenario) {
                Some(reason) => Err(reason),
                None if is(scenario, &FIRST) => Ok(self.first().await?),
                None => Ok(self.observe(scenario).await?),
            };
            if let (true, Ok(seen)) = (is(scenario, &TWO_KEYS), &seen) {
                self.has_telling_bodies = seen.reply(0).body != seen.reply(1).body;
                // The first request also made a connection.
                let successes = seen.all().filter(|reply| reply.is_success());
                let fastest = successes.map(|reply| reply.took).min();
                self.latency = fastest.map_or(self.latency, |took| took.min(self.latency));
            }
            let seen = seen.map(|seen| Seen {
                has_telling_bodies: self.has_telling_bodies,
                ..seen
            });
            let rules = self.rules.iter();
            for rule in rules.filter(|rule| is(rule.sends, scenario)) {
                let verdict = match &seen {
                    Ok(seen) => (rule.judge)(seen),
                    Err(reason) => Verdict::skipped(*reason),
                };
                findings.extend(Finding::new(rule, self.convention, verdict));
            }
        }
        Ok(Report {
            url: self.target.shown(),
            convention: self.convention,
            sent: self.client.sent,
            findings,
        })
    }

    /// The scenarios of the rules, each once. The first two show what the others need.
    fn scenarios(&self) -> Vec<&'static Scenario> {
        let mut scenarios = vec![&FIRST, &TWO_KEYS];
        for rule in &self.rules {
            if !scenarios.iter().any(|known| is(known, rule.sends)) {
                scenarios.push(rule.sends);
            }
        }
        scenarios
    }

    /// Why a scenario cannot be run.
    fn lacks(&self, scenario: &Scenario) -> Option<&'static str> {
        let mut needs = scenario.needs().into_iter();
        let lacks = needs.find(|need| !self.target.has(*need));
        lacks.map(Need::advice)
    }

    /// The first request. A service that refuses a key in quotes gets the others without quotes.
    async fn first(&mut self) -> Result<Seen, Failure> {
        let quoted = self.observe(&FIRST).await?;
        let mut reply = quoted.reply(0).clone();
        if !reply.is_success() && self.client.quotes {
            self.client.quotes = false;
            reply = self.observe(&FIRST).await?.reply(0).clone();
        }
        if !reply.is_success() {
            return Err(Failure::runtime(format!(
                "the first request must succeed, or nothing can be tested. It gets {}{}",
                reply.summary(),
                shortened(&reply.body)
            )));
        }
        self.latency = reply.took;
        Ok(quoted)
    }

    async fn observe(&mut self, scenario: &Scenario) -> Result<Seen, Failure> {
        let before = self.read_effect().await?;
        let own = OwnKey::new();
        let mut replies = Vec::new();
        for step in scenario.steps {
            replies.push(match *step {
                Step::Send(shape) => vec![self.client.send(shape, &own).await],
                Step::Storm(shape) => self.client.storm(shape, &own, self.storm).await,
                Step::HangUp(shape) => {
                    let after = (self.latency / 2).min(Duration::from_secs(1));
                    let reply = self.client.hang_up(shape, &own, after).await;
                    // The service shall see the end of the connection before the retry.
                    sleep(after / 5).await;
                    reply.into_iter().collect()
                }
                Step::Retry(shape) => vec![self.retry(shape, &own).await],
                Step::Pause(pause) => {
                    sleep(pause).await;
                    Vec::new()
                }
            });
        }
        if replies
            .iter()
            .flatten()
            .any(|reply| reply.status == TOO_MANY)
        {
            return Err(Failure::runtime(format!(
                "the service answers {TOO_MANY}, and nothing can be judged: use a smaller --rate and --storm"
            )));
        }
        let after = self.read_effect().await?;
        let grown = before.zip(after).map(|(before, after)| {
            let grown = after.checked_sub(before);
            grown.ok_or_else(|| {
                let name = scenario.name;
                Failure::runtime(format!("the effect has become smaller ({name})"))
            })
        });
        Ok(Seen {
            convention: self.convention,
            replies,
            effect: grown.transpose()?,
            has_telling_bodies: self.has_telling_bodies,
        })
    }

    /// Sends the request until it is not refused because an equal one runs.
    async fn retry(&mut self, shape: Shape, own: &OwnKey) -> Reply {
        let limits = [Duration::from_millis(50), Duration::from_secs(5)];
        let pause = self.latency.clamp(limits[0], limits[1]);
        for _ in 1..TRIES {
            let reply = self.client.send(shape, own).await;
            if !reply.is_conflict() {
                return reply;
            }
            sleep(pause).await;
        }
        self.client.send(shape, own).await
    }

    async fn read_effect(&self) -> Result<Option<u64>, Failure> {
        match &self.effect {
            Some(effect) => effect.read(&self.client.http).await.map(Some),
            None => Ok(None),
        }
    }
}

fn is(one: &Scenario, other: &Scenario) -> bool {
    std::ptr::eq(one, other)
}

/// The beginning of a body, as the end of a sentence.
fn shortened(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.chars().filter(|char| !char.is_control());
    let text: String = text.take(200).collect();
    if text.is_empty() {
        return text;
    }
    format!(": {text}")
}
