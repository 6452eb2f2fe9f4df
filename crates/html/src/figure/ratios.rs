// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A figure of the estimated compression ratio of each algorithm, with its confidence interval.

use pagewise_model::Estimate;

use super::rows::{Bar, ROOM, Rows};

/// Draws the compression ratios of a sample; `None` if no ratio is known.
pub(crate) fn draw_ratios(whole: &Estimate) -> Option<String> {
    let known: Vec<(String, f64, Option<[f64; 2]>)> = whole
        .algorithms
        .iter()
        .filter_map(|algorithm| {
            let ratio = algorithm.original_per_compressed?;
            let interval = algorithm.original_per_compressed_interval;
            Some((algorithm.compressor().to_string(), ratio, interval))
        })
        .collect();
    let ends = known.iter().map(|(_, ratio, interval)| interval.map_or(*ratio, |[_, high]| high));
    let most = ends.fold(1.0, f64::max);
    let mut rows = Rows::default();
    for (name, ratio, interval) in known {
        let [low, high] = interval.unwrap_or([ratio, ratio]);
        let scaled = |ratio: f64| (ratio / most).clamp(0.0, 1.0) * ROOM;
        let pieces = vec![("f-anon", scaled(low)), ("f-rest", scaled(high) - scaled(low))];
        let between = if low < high { format!(" ({low:.2} to {high:.2})") } else { String::new() };
        rows.push(Bar { name, pieces, value: format!("{ratio:.2}{between}") });
    }
    rows.draw("Original size per compressed size; grey: the 95 % interval")
}
