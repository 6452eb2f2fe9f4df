// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps an example alive when it is done, so that its memory can be examined from outside.

use std::error::Error;

use crate::clock;

/// With `hold=yes` the process waits until its standard input ends.
pub(crate) fn hold_if_asked() -> Result<(), Box<dyn Error>> {
    match clock::option("hold", String::new())?.as_str() {
        "" => {}
        "yes" => {
            println!("holding");
            std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        }
        text => return Err(format!("hold={text}: expected yes").into()),
    }
    Ok(())
}
