// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of reading one value from the host, with the file and line that it was read from.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::{Evidence, Quantity, Source};

/// The result of reading a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The value was read.
    Value(T),
    /// The value does not exist on this host. The text says why: the kernel is too old, a kernel
    /// option is off, or the line is malformed. It must never be treated as zero.
    Absent(Cow<'static, str>),
    /// The value exists, but Pagewise may not read it; the text says what would help.
    Denied(Cow<'static, str>),
}

/// One value of the host, with the file and line that it was read from.
///
/// In JSON: `{"value": 42, "unit": "bytes", "at": "/proc/meminfo:1"}`, `{"absent": "why", "at": …}`
/// or `{"denied": "what would help", "at": …}`. The keys `unit` and `at` are omitted if the value
/// has no unit or no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading<T> {
    /// The value, or why there is none.
    pub outcome: Outcome<T>,
    /// The file and line where the value was read, or where it was expected.
    pub source: Source,
}

impl<T> Reading<T> {
    /// Creates a Reading of a value that was read at `source`.
    pub fn found(value: T, source: Source) -> Self {
        Self { outcome: Outcome::Value(value), source }
    }

    /// Creates a Reading of a value that does not exist, with the reason.
    pub fn absent(why: impl Into<Cow<'static, str>>, source: Source) -> Self {
        Self { outcome: Outcome::Absent(why.into()), source }
    }

    /// Creates a Reading of a value that Pagewise may not read, with what would help.
    pub fn denied(help: impl Into<Cow<'static, str>>, source: Source) -> Self {
        Self { outcome: Outcome::Denied(help.into()), source }
    }

    /// Creates a Reading of a value that was not requested (outside the scope of the snapshot).
    pub fn not_read() -> Self {
        Self::absent("not read", Source::none())
    }

    /// A reference to the value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match &self.outcome {
            Outcome::Value(value) => Some(value),
            Outcome::Absent(_) | Outcome::Denied(_) => None,
        }
    }

    /// A copy of the value, if there is one.
    pub fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        self.value().copied()
    }

    /// Whether the value exists but more privileges are needed to read it.
    pub fn is_denied(&self) -> bool {
        matches!(self.outcome, Outcome::Denied(_))
    }

    /// Converts the value, if there is one. An absence, a denial and the source stay unchanged.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Reading<U> {
        self.and_then(|value| Ok(change(value)))
    }

    /// Like [`Reading::map`], for a conversion that may fail: the Reading is then absent, with the
    /// reason that `change` returned.
    pub fn and_then<U>(self, change: impl FnOnce(T) -> Result<U, Cow<'static, str>>) -> Reading<U> {
        let outcome = match self.outcome {
            Outcome::Value(value) => change(value).map_or_else(Outcome::Absent, Outcome::Value),
            Outcome::Absent(why) => Outcome::Absent(why),
            Outcome::Denied(help) => Outcome::Denied(help),
        };
        Reading { outcome, source: self.source }
    }
}

impl<T: Quantity> Reading<T> {
    /// Turns this Reading into the evidence of a finding; `None` if it has no value.
    pub fn evidence(&self) -> Option<Evidence> {
        self.value().map(|value| Evidence::new(&self.source, value.shown()))
    }
}

impl<T> Default for Reading<T> {
    fn default() -> Self {
        Self::not_read()
    }
}

impl<T: Quantity + Serialize> Serialize for Reading<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.outcome {
            Outcome::Value(value) => {
                map.serialize_entry("value", value)?;
                if let Some(unit) = T::UNIT {
                    map.serialize_entry("unit", unit)?;
                }
            }
            Outcome::Absent(why) => map.serialize_entry("absent", why)?,
            Outcome::Denied(help) => map.serialize_entry("denied", help)?,
        }
        if !self.source.path().is_empty() {
            map.serialize_entry("at", &self.source.to_string())?;
        }
        map.end()
    }
}

impl<T: JsonSchema> JsonSchema for Reading<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Reading_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        json_schema!({
            "description": "What one file or line of the host said: exactly one of value, absent (why) and denied (what would help); at is the file and line.",
            "type": "object",
            "properties": {
                "value": value,
                "unit": { "type": "string" },
                "absent": { "type": "string" },
                "denied": { "type": "string" },
                "at": { "type": "string" }
            },
            "oneOf": [
                { "required": ["value"] },
                { "required": ["absent"] },
                { "required": ["denied"] }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bytes;

    #[test]
    fn mapping_keeps_the_place_and_the_absence() {
        let at = Source::line("/proc/meminfo", 3);
        let reading = Reading::found(2u64, at.clone()).map(|n| Bytes::new(n * 1024));
        assert_eq!(reading, Reading::found(Bytes::new(2048), at.clone()));
        let denied = Reading::<u64>::denied("run as root", at.clone()).map(|n| n + 1);
        assert!(denied.is_denied());
        assert_eq!(denied.source, at);
    }

    #[test]
    fn places_print_as_file_and_line() {
        assert_eq!(Source::line("/proc/vmstat", 93).to_string(), "/proc/vmstat:93");
        assert_eq!(Source::file("/proc/sys/vm/swappiness").to_string(), "/proc/sys/vm/swappiness");
        assert_eq!(Source::file("/cg/\x1b[2J/x").to_string(), "/cg/\\u{1b}[2J/x");
    }
}
