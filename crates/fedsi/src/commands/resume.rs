//! `fedsi resume`.

use std::path::Path;

use fedsi_run::{RunFolder, run};

use super::run::{finish, stopped};
use crate::args::{ResumeArguments, Settings};
use crate::output::print;
use crate::progress::{RunBar, Screen};

pub(crate) fn resume(arguments: &ResumeArguments, screen: &Screen, json: bool) -> anyhow::Result<()> {
    let path: &Path = &arguments.dir;
    let folder = RunFolder::reopen(path)?;
    if path.join("summary.json").exists() {
        run::clean_up_complete(&folder);
        if screen.quiet {
            return Ok(());
        }
        return print(&format!("{} is complete: there is nothing to resume\n", path.display()));
    }
    let settings = Settings {
        config: Some(path.join("config.toml")),
        saved: true,
        data_dir: arguments.data_dir.clone(),
        threads: arguments.threads,
        device: arguments.device.clone(),
        state_dir: arguments.state_dir.clone(),
        ..Settings::default()
    };
    let config = settings.checked()?;
    crate::stop::listen();
    match run::resume(&config, &folder, &mut RunBar::new(screen), fedsi_report::write_run) {
        Ok(completed) => finish(&config, path, completed, screen, json),
        Err(error) => Err(stopped(error, path)),
    }
}
