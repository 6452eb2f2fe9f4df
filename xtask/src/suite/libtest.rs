// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the output of a Rust test program: how many tests passed and failed, and the time of
//! each.

#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Results {
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// Names of the tests that failed.
    pub(super) failures: Vec<String>,
    /// Seconds that each test took, by its name, if the program printed them (`--report-time`).
    pub(super) seconds: Vec<(String, f64)>,
}

impl Results {
    /// Parses lines such as `test result: ok. 12 passed; 0 failed; …` and `test a::b ... ok
    /// <1.234s>`.
    pub(super) fn read(output: &str) -> Self {
        let mut results = Self::default();
        for line in output.lines() {
            results.add_line(line);
        }
        results.failures = parse_failures(output);
        results
    }

    fn add_line(&mut self, line: &str) {
        if let Some(sums) = line.strip_prefix("test result: ") {
            self.passed += number_before(sums, "passed");
            self.failed += number_before(sums, "failed");
        } else if let Some(test) = line.strip_prefix("test ") {
            self.seconds.extend(parse_timed(test));
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures.iter().cloned());
        self.seconds.extend(other.seconds.iter().cloned());
    }
}

/// The names of failed tests, from the list at the end of the output. The line with a test's result
/// cannot be used, because the output of the test may come between its name and its result.
fn parse_failures(output: &str) -> Vec<String> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    names.map(|name| name.trim_end_matches(" - should panic").to_owned()).collect()
}

/// The name and the seconds in a line such as `a::b ... ok <1.234s>`.
fn parse_timed(line: &str) -> Option<(String, f64)> {
    let (name, rest) = line.split_once(" ... ")?;
    let (seconds, _) = rest.split_once('<')?.1.split_once("s>")?;
    Some((name.to_owned(), seconds.parse().ok()?))
}

fn number_before(sums: &str, word: &str) -> u64 {
    let words: Vec<&str> = sums.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let at = words.iter().position(|found| *found == word);
    let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
    number.unwrap_or(0)
}

/// The names of tests in the output of `--list --format terse`.
pub(super) fn parse_names(listed: &str) -> Vec<String> {
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod check {
    use super::*;

    #[test]
    fn totals_add_up_over_test_programs() {
        let printed = "running 3 tests\n\
            test a::b ... ok <1.250s>\ntest c ... FAILED <0.5s>\ntest d ... ok\n\
            \nfailures:\n\n---- c stdout ----\n    no name\n\nfailures:\n    c\n    e - should panic\n\n\
            test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out\n\
            test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let results = Results::read(printed);
        let seconds = vec![("a::b".to_owned(), 1.25), ("c".to_owned(), 0.5)];
        let failures = vec!["c".to_owned(), "e".to_owned()];
        assert_eq!(results, Results { passed: 16, failed: 2, failures, seconds });
    }

    #[test]
    fn names_are_those_of_tests() {
        assert_eq!(parse_names("a::b: test\nc: benchmark\nd: test\n\n2 tests\n"), ["a::b", "d"]);
    }
}
