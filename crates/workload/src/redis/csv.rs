// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the output of `redis-benchmark --csv`: requests per second, and latencies if the version
//! prints them.
//!
//! Since version 6.2 the first line names the columns. Before, there were two columns: the test and
//! its rate.

/// Result of one test of redis-benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RedisTest {
    pub(super) per_second: f64,
    pub(super) p50_seconds: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

/// Finds the row of a test in the output of redis-benchmark.
pub(super) fn parse_test(csv: &str, test: &str) -> Option<RedisTest> {
    let rows: Vec<Vec<&str>> = csv.lines().map(fields).collect();
    let head = rows.iter().find(|row| row.first() == Some(&"test"));
    let row = rows.iter().find(|row| row.first() == Some(&test))?;
    let named = |name: &str| {
        let at = head?.iter().position(|column| *column == name)?;
        row.get(at)?.parse::<f64>().ok()
    };
    let second = || row.get(1)?.parse().ok().filter(|_| head.is_none());
    Some(RedisTest {
        per_second: named("rps").or_else(second)?,
        p50_seconds: named("p50_latency_ms").map(|ms| ms / 1000.0),
        p99_seconds: named("p99_latency_ms").map(|ms| ms / 1000.0),
    })
}

fn fields(line: &str) -> Vec<&str> {
    line.split(',').map(|field| field.trim().trim_matches('"')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of redis-benchmark 7.0.15.
    const NEW: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
        \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
        \"SET\",\"40000.00\",\"0.074\",\"0.008\",\"0.031\",\"0.055\",\"0.519\",\"9.103\"\n\
        \"GET\",\"45454.55\",\"0.051\",\"0.008\",\"0.031\",\"0.047\",\"0.079\",\"5.303\"\n";

    #[test]
    fn columns_are_found_by_their_names() {
        let set = parse_test(NEW, "SET").unwrap();
        assert_eq!((set.per_second, set.p50_seconds), (40_000.0, Some(0.031 / 1000.0)));
        assert_eq!(set.p99_seconds, Some(0.519 / 1000.0));
        let other = parse_test("test,p99_latency_ms,rps\nGET,0.5,70.0\n", "GET").unwrap();
        let p99_seconds = Some(0.5 / 1000.0);
        assert_eq!(other, RedisTest { per_second: 70.0, p50_seconds: None, p99_seconds });
        assert_eq!(parse_test(NEW, "INCR"), None);
    }

    #[test]
    fn old_ones_tell_the_rate_alone() {
        let old = parse_test("\"SET\",\"98039.22\"\n\"GET\",\"99009.90\"\n", "GET").unwrap();
        assert_eq!(old, RedisTest { per_second: 99_009.9, p50_seconds: None, p99_seconds: None });
        assert_eq!(parse_test("\"SET\",\"nan?\"", "SET"), None);
        assert_eq!(parse_test("", "SET"), None);
    }
}
