//! `fedsi config`.

use fedsi_fl::config;

use crate::args::ConfigArguments;
use crate::output::{print, print_json};

pub(crate) fn config(arguments: &ConfigArguments, as_json: bool) -> anyhow::Result<()> {
    if arguments.schema {
        return print_json(&config::schema());
    }
    let resolved = arguments.settings.resolve()?;
    resolved.clone().check()?;
    if as_json {
        return print_json(&resolved);
    }
    print(&config::commented(&resolved)?)
}
