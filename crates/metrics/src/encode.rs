// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the series of a scrape as text, in the OpenMetrics format or in the older format of
//! Prometheus, which node_exporter's textfile collector reads.

use std::borrow::Cow;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit as OpenUnit};

use crate::metric::{Kind, Metric, PREFIX, Scrape, Series, Unit};
use crate::table::METRICS;

/// Formats the scrape as OpenMetrics text with its end mark. The result is the same for the same
/// scrape.
pub fn format_openmetrics(scrape: &Scrape<'_>) -> String {
    let families = METRICS
        .iter()
        .map(|metric| Family { metric, series: (metric.read)(scrape) })
        .filter(|family| !family.series.is_empty())
        .collect();
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    // writing to a String cannot fail, and the implementations of the encoder traits here do not
    // fail
    let _ = encode(&mut text, &registry);
    text
}

/// Formats the scrape in the older text format of Prometheus, for a file that node_exporter's
/// textfile collector reads. That format has no units and no end mark, and its counters have their
/// full names.
pub fn format_classic(scrape: &Scrape<'_>) -> String {
    let counters: Vec<String> =
        METRICS.iter().filter(|it| it.kind == Kind::Counter).map(Metric::full_name).collect();
    let mut text = String::new();
    for line in format_openmetrics(scrape).lines() {
        let mut words = line.splitn(4, ' ');
        let (mark, key, name, rest) = (words.next(), words.next(), words.next(), words.next());
        match (mark, key, name, rest) {
            (Some("#"), Some("UNIT" | "EOF"), ..) => continue,
            (Some("#"), Some(key), Some(name), Some(rest)) => {
                let full = format!("{name}_total");
                let name = if counters.contains(&full) { &full } else { name };
                text.push_str(&format!("# {key} {name} {rest}\n"));
            }
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

#[derive(Debug)]
struct Family {
    metric: &'static Metric,
    series: Vec<Series>,
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Family { metric, series } in &self.0 {
            let unit = match metric.unit {
                Unit::None => None,
                other => Some(OpenUnit::Other(other.word().to_owned())),
            };
            let kind = match metric.kind {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
            };
            let mut family =
                encoder.encode_descriptor(metric.name, metric.help, unit.as_ref(), kind)?;
            for Series { labels, value } in series {
                let labels = Labels { names: metric.labels, values: labels };
                let one = family.encode_family(&labels)?;
                match metric.kind {
                    Kind::Gauge => encode_metric(&ConstGauge::new(*value), one)?,
                    Kind::Counter => encode_metric(&ConstCounter::new(*value), one)?,
                }
            }
        }
        Ok(())
    }
}

fn encode_metric(
    metric: &impl prometheus_client::encoding::EncodeMetric,
    encoder: prometheus_client::encoding::MetricEncoder<'_>,
) -> fmt::Result {
    metric.encode(encoder)
}

struct Labels<'a> {
    names: &'static [&'static str],
    values: &'a [Cow<'static, str>],
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.names.iter().zip(self.values) {
            use prometheus_client::encoding::EncodeLabel;
            (*name, value.as_ref()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}
