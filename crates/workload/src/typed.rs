// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses text such as `swap data=224M seconds=8` into a [`Workload`]. The keys and their defaults
//! come from the workload's type itself, so no separate list can become outdated.

use serde_json::{Map, Value};

use super::error::Error;
use super::{ColdPages, HugePages, Redis, Swap, Tiers, Workload, check};

/// The names of the workloads.
pub const KINDS: [&str; 5] = ["swap", "coldpages", "tiers", "hugepages", "redis"];

impl Workload {
    /// Parses the name of a workload, and `KEY=VALUE` for parameters that differ from their
    /// defaults.
    ///
    /// # Errors
    /// If a key or value is not valid for this workload, or the parameters are inconsistent.
    pub fn from_words(kind: &str, settings: &[String]) -> Result<Self, Error> {
        let mut message = defaults(kind).ok_or_else(|| {
            Error::Unsound(format!("expected {}, found {kind:?}", KINDS.join(", ")))
        })?;
        for setting in settings {
            apply_setting(kind, &mut message, setting)?;
        }
        let workload = read(&message).map_err(Error::Unsound)?;
        workload.check()?;
        Ok(workload)
    }

    /// Parses the JSON that [`Workload::program`] makes.
    ///
    /// # Errors
    /// If the text does not describe a workload, or the parameters are inconsistent.
    pub fn from_description(text: &str) -> Result<Self, Error> {
        let wrong = |error| Error::Unsound(format!("expected a workload as JSON: {error}"));
        let workload: Self = serde_json::from_str(text).map_err(wrong)?;
        workload.check()?;
        Ok(workload)
    }

    /// Checks that the parameters are consistent.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Swap(swap) => check::check_swap(swap),
            Self::Coldpages(cold) => check::check_coldpages(cold),
            Self::Tiers(tiers) => check::check_tiers(tiers),
            Self::Hugepages(huge) => check::check_hugepages(huge),
            Self::Redis(redis) => check::check_redis(redis),
            Self::Command { argv } if argv.is_empty() => {
                Err(Error::Unsound("argv: expected a program, found nothing".to_owned()))
            }
            Self::Command { .. } => Ok(()),
        }
    }

    /// The parameters of a workload with their defaults.
    #[must_use]
    pub fn keys(kind: &str) -> Vec<(String, String)> {
        let message = defaults(kind).unwrap_or_default().into_iter();
        message
            .filter(|(key, _)| key != "kind")
            .map(|(key, value)| (key, format_value(&value)))
            .collect()
    }
}

fn format_value(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn defaults(kind: &str) -> Option<Map<String, Value>> {
    let workload = match kind {
        "swap" => Workload::Swap(Swap::default()),
        "coldpages" => Workload::Coldpages(ColdPages::default()),
        "tiers" => Workload::Tiers(Tiers::default()),
        "hugepages" => Workload::Hugepages(HugePages::default()),
        "redis" => Workload::Redis(Redis::default()),
        _ => return None,
    };
    serde_json::to_value(workload).ok()?.as_object().cloned()
}

fn read(summary: &Map<String, Value>) -> Result<Workload, String> {
    serde_json::from_value(Value::Object(summary.clone())).map_err(|error| error.to_string())
}

/// Sets one parameter of a workload; it is checked at once, so that the error can name it.
fn apply_setting(kind: &str, summary: &mut Map<String, Value>, setting: &str) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::Unsound(why));
    let Some((key, text)) = setting.split_once('=') else {
        return wrong(format!("expected KEY=VALUE, found {setting:?}"));
    };
    let Some(value) = summary.get_mut(key).filter(|_| key != "kind") else {
        let keys: Vec<String> = Workload::keys(kind).into_iter().map(|(key, _)| key).collect();
        return wrong(format!("expected a key of {kind}, found {key:?}: {}", keys.join(", ")));
    };
    let text_again = Value::String(text.to_owned());
    *value = match value {
        Value::String(_) => text_again,
        _ => serde_json::from_str(text).unwrap_or(text_again),
    };
    read(summary).map(drop).or_else(|why| wrong(format!("{key}={text}: {why}")))
}

#[cfg(test)]
mod tests {
    use pagewise_model::Program;

    use super::super::Size;
    use super::super::recognise;
    use super::*;

    fn parse_line(line: &str) -> Result<Workload, String> {
        let mut words = line.split(' ');
        let kind = words.next().unwrap();
        let settings: Vec<String> = words.map(str::to_owned).collect();
        Workload::from_words(kind, &settings).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_typed_differs_from_the_defaults() {
        let published = "swap shared=true contents=zero:100 parts=3 step=4K code_per_data=2";
        let expected = Swap {
            shared: true,
            contents: "zero:100".to_owned(),
            parts: 3,
            step: Size(pagewise_model::Bytes::new(4096)),
            code_per_data: 2.0,
            ..Swap::default()
        };
        assert_eq!(parse_line(published), Ok(Workload::Swap(expected)));
        for kind in KINDS {
            assert!(parse_line(kind).is_ok() && !Workload::keys(kind).is_empty(), "{kind}");
        }
    }

    #[test]
    fn a_described_workload_is_what_its_command_says() {
        let workload = parse_line("coldpages sharers=16 write_share=0 data=8M").unwrap();
        let program = workload.program("/bin/pagewise".as_ref());
        assert_eq!(Workload::from_description(program.argv().last().unwrap()).unwrap(), workload);
        assert_eq!(Workload::of_program(&program), Some(workload));
        assert_eq!(recognise(program.argv().to_vec()), program);
        for other in
            ["pagewise lab workload --described [", "sudo pagewise lab workload --described {}"]
        {
            let argv: Vec<String> = other.split(' ').map(str::to_owned).collect();
            assert_eq!(recognise(argv.clone()), Program::Argv(argv));
        }
        assert!(Workload::from_description("{\"kind\":\"swap\",\"data\":\"0M\"}").is_err());
        assert!(Workload::from_description("{\"kind\":\"swap\",\"x\":1}").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, why) in [
            ("bench", "expected swap, coldpages, tiers, hugepages, redis, found \"bench\""),
            ("swap data", "expected KEY=VALUE, found \"data\""),
            ("swap date=1M", "expected a key of swap, found \"date\": code, code_hot_share,"),
            ("swap kind=redis", "expected a key of swap"),
            ("swap data=12", "data=12: expected a size as 256M or 2G, found \"12\""),
            ("swap data=0M", "data: expected a page at least, found 0"),
            ("swap data=1K", "data: expected whole pages"),
            ("swap data=8M window=16M", "window: expected no more than data=8M, found 16M"),
            ("swap parts=0", "parts: expected from 1 part"),
            ("swap parts=1.5", "parts=1.5: invalid type: floating point"),
            ("swap pattern=random", "pattern=random: unknown variant `random`, expected one of"),
            ("swap contents=text:99", "contents: expected parts of 100"),
            ("swap write_share=2", "write_share: expected a share from 0 to 1, found 2"),
            ("swap seconds=0", "seconds: expected a time above 0"),
            ("swap seconds=nan", "seconds=nan: invalid type"),
            ("swap code=0M", "code: expected a page, or code_per_data=0"),
            ("coldpages sharers=16", "write_share: expected 0 with more than one of sharers"),
            ("coldpages exponent=-1", "exponent: expected a number from 0 to 5, found -1"),
            ("tiers hot=0M", "hot: expected a page at least, found 0"),
            ("tiers cold=1K", "cold: expected whole pages of 4096 bytes, found 1K"),
            ("tiers cold=0M cold_share=0.1", "cold_share: expected 0 where cold has no page"),
            ("tiers cold_share=2", "cold_share: expected a share from 0 to 1, found 2"),
            ("tiers exponent=6", "exponent: expected a number from 0 to 5, found 6"),
            ("tiers write_share=-1", "write_share: expected a share from 0 to 1, found -1"),
            ("tiers operations=1", "operations: expected two at least"),
            ("tiers operations=0.5", "operations=0.5: invalid type: floating point"),
            ("tiers contents=text:7", "contents: expected parts of 100"),
            ("tiers seconds=5", "expected a key of tiers, found \"seconds\": cold, cold_share,"),
            ("redis clients=0", "clients: expected from 1 to 1000, found 0"),
        ] {
            let message = parse_line(line).unwrap_err();
            assert!(message.starts_with(why), "{line}: {message}");
        }
    }
}
