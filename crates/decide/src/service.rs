// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the state of the service "memory" for monitoring systems: from the findings and, if
//! no finding was left out, also from the verdict.

use pagewise_model::{Finding, HostVerdict, Level, ServiceState, Severity};

/// Determines the state of a host from its `present` findings, which are those that have not ended.
/// `is_all` means that no finding was left out at the user's request. In this case a verdict that
/// memory is short is considered as well.
pub fn judge_service<'a>(
    verdict: &HostVerdict,
    present: impl IntoIterator<Item = &'a Finding>,
    is_all: bool,
) -> ServiceState {
    let of_finding = |finding: &Finding| match finding.severity {
        Severity::Critical => ServiceState::Critical,
        Severity::Warning => ServiceState::Warning,
        Severity::Info => ServiceState::Ok,
    };
    let worst = present.into_iter().map(of_finding).max().unwrap_or(ServiceState::Ok);
    match verdict.level {
        Level::Unknown if worst == ServiceState::Ok => ServiceState::Unknown,
        Level::Critical if is_all => ServiceState::Critical,
        Level::Short if is_all => worst.max(ServiceState::Warning),
        Level::Unknown | Level::Calm | Level::Tight | Level::Short | Level::Critical => worst,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity) -> Finding {
        pagewise_testkit::finding("x", severity)
    }

    fn judge(level: Level, severities: &[Severity], is_all: bool) -> ServiceState {
        let verdict = HostVerdict { level, ..HostVerdict::default() };
        let findings: Vec<Finding> = severities.iter().copied().map(finding).collect();
        judge_service(&verdict, &findings, is_all)
    }

    #[test]
    fn the_worst_finding_decides_and_info_is_no_trouble() {
        use Severity::{Critical, Info, Warning};
        assert_eq!(judge(Level::Calm, &[], true), ServiceState::Ok);
        assert_eq!(judge(Level::Tight, &[Info], true), ServiceState::Ok);
        assert_eq!(judge(Level::Calm, &[Info, Warning], true), ServiceState::Warning);
        assert_eq!(judge(Level::Calm, &[Warning, Critical, Info], true), ServiceState::Critical);
    }

    #[test]
    fn a_verdict_counts_unless_findings_are_left_out() {
        assert_eq!(judge(Level::Short, &[], true), ServiceState::Warning);
        assert_eq!(judge(Level::Critical, &[Severity::Warning], true), ServiceState::Critical);
        assert_eq!(judge(Level::Critical, &[], false), ServiceState::Ok);
    }

    #[test]
    fn what_is_not_known_is_not_fine() {
        assert_eq!(judge(Level::Unknown, &[], false), ServiceState::Unknown);
        assert_eq!(judge(Level::Unknown, &[Severity::Info], true), ServiceState::Unknown);
        assert_eq!(judge(Level::Unknown, &[Severity::Warning], true), ServiceState::Warning);
    }
}
