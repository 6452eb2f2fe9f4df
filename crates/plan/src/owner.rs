// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines which configuration file sets a setting at boot. No other module of this crate reads
//! [`Configuration`].

use pagewise_model::{Configuration, Effect, Mechanism, PersistentSetting, Purpose, Target};

/// The configuration files that have an effect at boot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owners<'a> {
    pub(crate) configuration: &'a Configuration,
}

/// A line of a configuration file that sets a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) value: String,
    /// The path of the file with the assignment.
    pub(crate) path: String,
    /// File and line number of the assignment, as text.
    pub(crate) at: String,
}

impl Assignment {
    /// The file name, by which files of sysctl.d are sorted.
    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A file that `sysctl --system` reads last, and that systemd does not read.
pub(crate) const SYSCTL_CONF: &str = "/etc/sysctl.conf";

impl Owners<'_> {
    /// Returns all lines of sysctl files that set this setting, in the order in which they are
    /// applied.
    pub(crate) fn sysctl(self, knob: &str) -> Vec<Assignment> {
        let of_knob = lines(self.configuration, Mechanism::Sysctl, knob);
        let line = |setting: &PersistentSetting| Assignment {
            value: setting.value.value().map(ToString::to_string).unwrap_or_default(),
            path: setting.value.source.path().to_owned(),
            at: setting.value.source.to_string(),
        };
        of_knob.map(line).collect()
    }

    /// Returns the line of a TuneD profile that sets another value after the sysctl files were
    /// applied, if there is one.
    pub(crate) fn find_overriding_line(self, knob: &str, to: &str) -> Option<String> {
        self.configuration.tuned.as_ref().filter(|tuned| !tuned.reapplies_sysctl)?;
        let setting = lines(self.configuration, Mechanism::Tuned, knob).next_back()?;
        let value = setting.value.value()?;
        (value.as_str() != to).then(|| setting.value.source.to_string())
    }

    /// Returns the program that creates compressed swap at boot, and the file that shows this.
    pub(crate) fn find_compressed_swap(self) -> Option<(&'static str, String)> {
        let managers = self.configuration.managers.iter();
        let mut makers = managers.filter(|it| it.purpose == Purpose::CompressedSwap);
        makers.next().map(|it| (it.name, it.found.source.path().to_owned()))
    }

    /// Returns the line because of which zram-generator rejects all its files, and a replacement
    /// that it would accept, as the end of a sentence.
    pub(crate) fn find_rejected_line(self) -> Option<(String, String)> {
        let refused = self.configuration.refused.as_ref()?;
        let mended = refused.mended.as_ref().map(|line| format!(" (to \"{line}\")"));
        Some((refused.line.source.to_string(), mended.unwrap_or_default()))
    }

    /// Whether zram-generator is installed and a device is configured for it.
    pub(crate) fn is_generator_active(self) -> bool {
        self.find_compressed_swap().is_some_and(|(name, _)| name == "zram-generator")
    }

    /// Returns the device from which the machine resumes after hibernation.
    pub(crate) fn resume_device(self) -> Option<String> {
        const NONE: &str = "0:0";
        let device = self.configuration.resume_device.value()?;
        (device.as_str() != NONE).then(|| device.to_string())
    }
}

/// Returns the lines of one mechanism that set a setting, including lines whose effect is unknown.
fn lines<'a>(
    configuration: &'a Configuration,
    mechanism: Mechanism,
    knob: &'a str,
) -> impl DoubleEndedIterator<Item = &'a PersistentSetting> {
    let applied = configuration.by(mechanism).filter(|setting| setting.effect == Effect::Applied);
    applied.filter(move |it| matches!(&it.target, Target::Knob { knob: name, .. } if *name == knob))
}
