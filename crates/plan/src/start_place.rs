// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where each init system other than systemd finds the start script of a plan ([`Place`]).

use pagewise_model::{InitSystem, Installation};

/// The path of a plan's start script, and what makes the init system run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) init: InitSystem,
    pub(crate) script: &'static str,
    /// The link that enables the script: path and target.
    pub(crate) link: Option<(&'static str, &'static str)>,
    /// What the machine's owner has to do so that the script is run at boot. `None` if nothing has
    /// to be done; otherwise a plan does not change the file that starts scripts.
    by_hand: Option<&'static str>,
}

const INIT_D: &str = "/etc/init.d/pagewise";

impl Place {
    /// Returns the place of the script with this init system; `None` if there is no place or if no
    /// script is needed.
    pub(crate) const fn of(init: InitSystem) -> Option<Self> {
        let (script, link, by_hand) = match init {
            InitSystem::OpenRc => (INIT_D, Some(("/etc/runlevels/boot/pagewise", INIT_D)), None),
            InitSystem::Procd => {
                (INIT_D, Some(("/etc/rc.d/S90pagewise", "../init.d/pagewise")), None)
            }
            InitSystem::RunitCoreServices => {
                ("/etc/runit/core-services/99-pagewise.sh", None, None)
            }
            InitSystem::SysV => {
                (INIT_D, Some(("/etc/rcS.d/S99pagewise", "../init.d/pagewise")), None)
            }
            InitSystem::SysVRegistered => {
                let why = "init runs only scripts that are registered in /etc/init.d/.depend.boot. After `pagewise \
                           apply`, register the script that it wrote: `sudo update-rc.d pagewise defaults`";
                (INIT_D, None, Some(why))
            }
            InitSystem::BusyboxScripts => ("/etc/init.d/S99pagewise", None, None),
            InitSystem::BusyboxRcs => {
                let why = "init runs /etc/init.d/rcS, which starts no other scripts. Add this line at the end of \
                           /etc/init.d/rcS: `/etc/init.d/pagewise start`";
                (INIT_D, None, Some(why))
            }
            InitSystem::Systemd | InitSystem::Unknown => return None,
        };
        Some(Self { init, script, link, by_hand })
    }

    /// Returns what the machine's owner still has to do so that the script is run at boot.
    pub(crate) fn step_for_owner(&self, installation: &Installation) -> Option<&'static str> {
        self.by_hand.filter(|_| !installation.starts_own_script)
    }
}
