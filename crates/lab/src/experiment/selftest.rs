// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs experiments with two identical arms, to find out how often this machine raises a false
//! alarm, and how small an effect it can detect.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pagewise_model::{
    Clock, Program, SelfTest, SelfTestMetric, Trial, TrialArm, TrialNoise, Verdict,
};
use pagewise_stats::compare::detectable_effect;
use pagewise_stats::name::{CPU, MAJOR_FAULTS, TIME};
use pagewise_stats::{Experiment, Metric, USUAL_PAIRS, judge, median};

use super::conduct::{Control, conduct};
use super::event::TrialEvent;
use super::trouble::ExperimentError;

/// Default for the maximum number of experiments in a selftest.
pub const TRIALS: u32 = 12;
/// No further experiment is started if it would probably end later than this after the start.
const TIME_FOR_ALL: Duration = Duration::from_secs(40);
/// Accepted probability of a false alarm.
const ALARM: f64 = 0.05;

/// Runs `program` with `arguments` repeatedly, in at most `most` experiments. No settings are
/// changed.
///
/// # Errors
/// If the command fails. If the user stops the selftest, that is no error: the result so far is
/// returned.
pub fn selftest(
    program: &Path,
    arguments: &[&str],
    most: u32,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<SelfTest, ExperimentError> {
    let began = Instant::now();
    let mut trials: Vec<Trial> = Vec::new();
    let (mut stopped, mut longest) = (false, Duration::ZERO);
    let runs = experiment_with_equal_arms(program, arguments, 0).runs();
    for number in 0..most {
        let trial_began = Instant::now();
        if began.elapsed() + longest > TIME_FOR_ALL {
            break;
        }
        let experiment = experiment_with_equal_arms(program, arguments, fastrand::u64(..));
        let mut on_event = |event: &TrialEvent| {
            if let TrialEvent::Begins { run, .. } = event {
                progress(number * runs + run, most * runs);
            }
            ControlFlow::Continue(())
        };
        let conducted = conduct(&experiment, None, &mut Control { stop, on_event: &mut on_event });
        match conducted.trouble {
            None => {
                trials.push(judge(&experiment, &conducted.runs));
                longest = longest.max(trial_began.elapsed());
            }
            Some(ExperimentError::Stopped) => {
                stopped = true;
                break;
            }
            Some(trouble) => return Err(trouble),
        }
    }
    Ok(summarize(&trials, stopped, began.elapsed()))
}

/// An experiment with identical arms. Each experiment has a seed of its own, because with the same
/// order of runs the same false alarm would occur again.
fn experiment_with_equal_arms(program: &Path, arguments: &[&str], seed: u64) -> Experiment {
    let arm = |name: &str| TrialArm {
        name: name.to_owned(),
        settings: Vec::new(),
        ..TrialArm::default()
    };
    let command = [program.to_string_lossy().into_owned()];
    let arguments = arguments.iter().map(|&word| word.to_owned());
    Experiment {
        program: Program::Argv(command.into_iter().chain(arguments).collect()),
        arms: vec![arm("a"), arm("b")],
        metrics: vec![Metric::new_time()],
        pairs: USUAL_PAIRS,
        min_effect: 0.0,
        warm_up: 0,
        seed,
        memory_limit_bytes: None,
        deadline: Duration::from_secs(30),
        clock: Clock::Real,
        profile: false,
        counted_from: None,
        neighbour: None,
    }
}

fn summarize(trials: &[Trial], stopped: bool, time: Duration) -> SelfTest {
    let metrics: Vec<SelfTestMetric> =
        [TIME, CPU, MAJOR_FAULTS].iter().map(|name| summarize_metric(trials, name)).collect();
    let trials_made = u32::try_from(trials.len()).unwrap_or(u32::MAX);
    let most = metrics.iter().map(|metric| metric.false_alarms).max().unwrap_or(0);
    let mean = |of: fn(&TrialNoise) -> Option<f64>| {
        let all: Option<Vec<f64>> = trials.iter().map(|trial| of(&trial.noise)).collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    SelfTest {
        trials: trials_made,
        pairs: USUAL_PAIRS,
        sound: probability_of_alarms(trials_made, most) > 0.01,
        noise: TrialNoise {
            others_processors: mean(|noise| noise.others_processors),
            stolen_processors: mean(|noise| noise.stolen_processors),
            slept_seconds: trials.iter().map(|trial| trial.noise.slept_seconds).sum(),
            run_spread: metrics[0].run_spread,
        },
        metrics,
        stopped,
        seconds: time.as_secs_f64(),
    }
}

fn summarize_metric(trials: &[Trial], name: &str) -> SelfTestMetric {
    let all = trials.iter().flat_map(|trial| &trial.metrics).filter(|metric| metric.name == name);
    let alarms = all.clone().filter(|it| matches!(it.verdict, Verdict::Better | Verdict::Worse));
    // the effect that 7 pairs can detect shows how much runs vary
    let one = detectable_effect(1e-6, USUAL_PAIRS) / 1e-6;
    let spreads = all.filter_map(|it| Some(it.detectable_effect?.ln_1p() / one));
    let run_spread = median(&spreads.collect::<Vec<_>>());
    SelfTestMetric {
        name: name.to_owned(),
        false_alarms: u32::try_from(alarms.count()).unwrap_or(u32::MAX),
        run_spread,
        detectable_with_7: run_spread.map(|spread| detectable_effect(spread, 7)),
        detectable_with_20: run_spread.map(|spread| detectable_effect(spread, 20)),
    }
}

/// Probability of at least this many false alarms if each experiment raises one with the accepted
/// probability.
fn probability_of_alarms(trials: u32, alarms: u32) -> f64 {
    let mut likely = (1.0 - ALARM).powi(i32::try_from(trials).unwrap_or(i32::MAX));
    let mut fewer = 0.0;
    for number in 0..alarms {
        fewer += likely;
        likely *= ALARM / (1.0 - ALARM) * f64::from(trials - number) / f64::from(number + 1);
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use pagewise_model::{RunEnd, TrialRun};
    use pagewise_stats::order::draw_rounds;

    use super::*;

    /// A simulated experiment: runs vary by about 5 %, B takes `effect` times A's time, and there
    /// are no major faults.
    fn made_up(effect: f64, seed: u64) -> Trial {
        let experiment = experiment_with_equal_arms(Path::new("none"), &[], seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut runs = Vec::new();
        for (pair, round) in (1..).zip(draw_rounds(seed, 2, USUAL_PAIRS)) {
            for arm in round {
                let number = u32::try_from(runs.len()).unwrap() + 1;
                let name = &experiment.arms[arm].name;
                let noise = (0..4).map(|_| rng.f64() - 0.5).sum::<f64>() * 0.1;
                let seconds = noise.exp() * if arm == 0 { 1.0 } else { effect };
                let mut run = TrialRun::new_unstarted(number, Some(pair), name);
                run.end = RunEnd::Exited { status: 0 };
                run.values = [(TIME, seconds), (CPU, seconds * 0.9), (MAJOR_FAULTS, 0.0)]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into();
                runs.push(run);
            }
        }
        judge(&experiment, &runs)
    }

    fn made_up_selftest(effect: f64, seed: u64) -> SelfTest {
        let trials: Vec<Trial> =
            (0..u64::from(TRIALS)).map(|number| made_up(effect, seed * 1000 + number)).collect();
        super::summarize(&trials, false, Duration::ZERO)
    }

    /// If arms do not differ, a machine is found sound in all but about one of a hundred selftests.
    #[test]
    fn a_against_a_is_hardly_ever_a_difference() {
        let all: Vec<SelfTest> = (0..40).map(|seed| made_up_selftest(1.0, seed)).collect();
        let unsound = all.iter().filter(|found| !found.sound).count();
        let alarms: u32 = all.iter().map(|found| found.metrics[0].false_alarms).sum();
        println!("{alarms} false alarms in {} trials, {unsound} of 40 unsound", 40 * TRIALS);
        assert!(unsound <= 1, "{unsound} of 40");
        // expected: 5 in 100, so 24 false alarms; standard deviation 4.8
        assert!((1..=36).contains(&alarms), "{alarms} in {} trials", 40 * TRIALS);
        for found in &all {
            assert_eq!((found.trials, found.pairs), (TRIALS, USUAL_PAIRS));
            let faults = &found.metrics[2];
            assert_eq!((faults.name.as_str(), faults.false_alarms), (MAJOR_FAULTS, 0));
            assert!(found.noise.run_spread.is_some_and(|spread| (0.01..0.2).contains(&spread)));
        }
    }

    /// The opposite case: if the second arm were slower only because it comes second, the selftest
    /// would show that.
    #[test]
    fn a_machine_that_prefers_an_arm_is_not_sound() {
        for seed in 0..5 {
            let found = made_up_selftest(1.3, seed);
            assert!(!found.sound && found.metrics[0].false_alarms > 9, "{found:?}");
        }
    }

    #[test]
    fn few_false_alarms_are_chance_and_many_are_not() {
        assert!((probability_of_alarms(12, 0) - 1.0).abs() < 1e-12);
        assert!((probability_of_alarms(12, 1) - 0.4596).abs() < 1e-3);
        assert!(probability_of_alarms(12, 3) > 0.01 && probability_of_alarms(12, 4) < 0.01);
        assert!((probability_of_alarms(1, 1) - 0.05).abs() < 1e-12);
        assert_eq!(probability_of_alarms(0, 0), 1.0);
    }
}
