//! The commands of the program on real folders, and what is found there afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fedsi_compare::{CompareSpec, compare, methods};
use fedsi_fl::config::Overrides;
use fedsi_fl::{Checked, ConfigError, resolve};
use fedsi_run::crash_points::{Crash, Then, with_hook};
use fedsi_run::saved::SavedRun;
use fedsi_run::{RunError, RunFolder, run};
use toml::{Table, Value};

use crate::model::{Command, Key, Place, Settings};

/// What a run can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// `metrics.jsonl` of an unfinished run is cut in half.
    Metrics,
    /// A bit of the newest checkpoint flips.
    NewestCheckpoint,
    /// The record of evaluated clients is cut in half.
    EvaluationLog,
    /// A bit in its middle flips.
    EvaluationRecord,
    /// A killed process left a lock and a temporary file.
    LeftOver,
}

/// What is found in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Observed {
    /// No run.
    Absent,
    /// A whole run.
    Complete(Key),
    /// A run that can be resumed, and gives these results then.
    Resumable(Key),
    /// An unfinished run that is not resumed, because its data has changed.
    OtherData(Settings),
    /// Anything else.
    Broken(String),
}

/// A run's files that must be the same, bit for bit.
type Results = BTreeMap<String, Vec<u8>>;

/// What undisturbed runs give.
static UNDISTURBED: Mutex<BTreeMap<Key, Results>> = Mutex::new(BTreeMap::new());

/// Commands in a folder.
pub(crate) struct Program {
    root: PathBuf,
}

impl Program {
    pub(crate) fn new(root: &Path) -> Self {
        let program = Self { root: root.to_owned() };
        program.write_data(0);
        program
    }

    pub(crate) fn path(&self, place: Place) -> PathBuf {
        match place {
            Place::Run => self.root.join("run"),
            Place::Compared => self.root.join("compare/fedper-s1"),
        }
    }

    pub(crate) fn write_data(&self, version: u8) {
        let row = |row: u32| format!("{},{},{}\n", (row * 7) % 11, u32::from(version) + row % 2, row % 3 / 2);
        let rows: String = (0..24).map(row).collect();
        fs::write(self.root.join("data.csv"), format!("a,who,y\n{rows}")).unwrap();
    }

    fn config(&self, settings: Settings, more: &[(&str, Value)]) -> Result<Checked, ConfigError> {
        let rounds = match settings {
            Settings::Short => 2,
            Settings::Long => 3,
        };
        let data = self.root.join("data.csv");
        let mut table: Table = format!(
            "method = \"fedper\"\nseed = 1\nrounds = {rounds}\nthreads = 1\n\
             data = {{ dataset = \"files\", files = {{ train = {data:?}, target = \"y\", client = \"who\" }} }}\n\
             partition = {{ kind = \"natural\" }}\n\
             training = {{ epochs = 1 }}\ntuning = {{ epochs = 1 }}\n\
             model = {{ body = [{{ linear = 3 }}, \"tanh\"] }}\n\
             checkpoint = {{ rounds = 1 }}\n"
        )
        .parse()
        .unwrap();
        for (key, value) in more {
            table.insert((*key).to_owned(), value.clone());
        }
        resolve(&[Overrides::from_text("test", &table.to_string())?])?.check()
    }

    /// Carries out a command, killed before this many changes where there is a number.
    pub(crate) fn carry_out(&self, command: Command, kill: Option<u16>) {
        let Some(kill) = kill else { return self.attempt(command) };
        let mut left = kill;
        let hook = move |_: &Path| match left.checked_sub(1) {
            Some(fewer) => {
                left = fewer;
                Then::GoOn
            }
            None => Then::Crash,
        };
        let ended = catch_unwind(AssertUnwindSafe(|| with_hook(&self.root, hook, || self.attempt(command))));
        if let Err(payload) = ended
            && !payload.is::<Crash>()
        {
            resume_unwind(payload);
        }
    }

    /// Carries out a command, and a second one when the first has made so many changes, or when it is done.
    pub(crate) fn side_by_side(&self, first: Command, second: Command, at: u16) {
        let other = Self { root: self.root.clone() };
        let (mut left, came) = (at, std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let seen = came.clone();
        let hook = move |_: &Path| {
            if left == 0 && !seen.swap(true, std::sync::atomic::Ordering::SeqCst) {
                other.attempt(second);
            }
            left = left.saturating_sub(1);
            Then::GoOn
        };
        with_hook(&self.root, hook, || self.attempt(first));
        if !came.load(std::sync::atomic::Ordering::SeqCst) {
            self.attempt(second);
        }
    }

    /// Whatever comes of it shows in the folders.
    fn attempt(&self, command: Command) {
        let _ = match command {
            Command::Run { settings, force } => self.run(&self.path(Place::Run), settings, force),
            Command::Resume => self.resume(&self.path(Place::Run)).map(drop),
            Command::Report(place) => {
                let _ = fedsi_report::remake(&self.path(place));
                Ok(())
            }
            Command::Compare { settings, force } => {
                self.compare(settings, force);
                Ok(())
            }
        };
    }

    fn run(&self, path: &Path, settings: Settings, force: bool) -> Result<(), RunError> {
        let config = self.config(settings, &[])?;
        let folder = RunFolder::claim(path, force, &config)?;
        run::run(&config, folder, &mut (), |_, _| ()).map(drop)
    }

    fn resume(&self, path: &Path) -> Result<bool, RunError> {
        let folder = RunFolder::reopen(path)?;
        if path.join("summary.json").exists() {
            run::clean_up_complete(&folder);
            return Ok(false);
        }
        let saved = Overrides::from_saved(&path.join("config.toml"))?;
        let config = resolve(&[saved])?.check()?;
        run::resume(&config, &folder, &mut (), |_, _| ()).map(|_| true)
    }

    fn compare(&self, settings: Settings, force: bool) {
        let spec = CompareSpec {
            methods: methods("fedper").unwrap(),
            with: Vec::new(),
            columns: Vec::new(),
            given: Table::new(),
            seeds: 1,
            reference: None,
            tune: None,
            jobs: 1,
            out: Some(self.root.join("compare")),
            force,
            settings: &|more| self.config(settings, more),
        };
        if let Ok(finished) = compare(&spec, &(), &|_, _| Ok(())) {
            finished.comparison.write(finished.folder.path()).unwrap();
        }
    }

    /// Damages a file that a run can do without, where it is there.
    pub(crate) fn damage(&self, place: Place, damage: Damage) {
        let path = self.path(place);
        let unfinished = path.join("config.toml").exists() && !path.join("summary.json").exists();
        if !unfinished {
            return;
        }
        let checkpoint = path.join("checkpoint");
        match damage {
            Damage::Metrics => cut(&path.join("metrics.jsonl")),
            Damage::EvaluationLog => cut(&checkpoint.join("evaluation.fedsi")),
            Damage::EvaluationRecord => {
                let log = checkpoint.join("evaluation.fedsi");
                if let Ok(mut bytes) = fs::read(&log) {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 4;
                    fs::write(&log, bytes).unwrap();
                }
            }
            Damage::NewestCheckpoint => {
                let names = fs::read_dir(&checkpoint).into_iter().flatten().flatten();
                let rounds =
                    names.map(|entry| entry.path()).filter(|path| path.to_string_lossy().contains("round-"));
                if let Some(newest) = rounds.max() {
                    let mut bytes = fs::read(&newest).unwrap();
                    if let Some(byte) = bytes.get_mut(8) {
                        *byte ^= 1;
                    }
                    fs::write(&newest, bytes).unwrap();
                }
            }
            Damage::LeftOver => {
                fs::write(path.join(".fedsi-lock"), "").unwrap();
                fs::write(path.join(".fedsi-4gHj2k"), "half a file").unwrap();
            }
        }
    }

    /// What a folder holds, found out on a copy of it.
    pub(crate) fn observe(&self, place: Place, data: u8) -> Observed {
        let copy = self.root.join("copy");
        let _ = fs::remove_dir_all(&copy);
        copy_folder(&self.path(place), &copy);
        let observed = self.judge(&copy, data).unwrap_or_else(Observed::Broken);
        let _ = fs::remove_dir_all(&copy);
        observed
    }

    fn judge(&self, path: &Path, data: u8) -> Result<Observed, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        RunFolder::recover(path).map_err(|error| text(&error))?;
        if path.join("summary.json").exists() {
            return Ok(Observed::Complete(whole(path)?));
        }
        let left: Vec<String> = names(path).into_iter().filter(|name| !name.starts_with(".fedsi-")).collect();
        if left.is_empty() {
            return Ok(Observed::Absent);
        }
        if !path.join("config.toml").exists() {
            return Err(format!("without a config there are {left:?}"));
        }
        match self.resume(path) {
            Ok(_) => {
                let key = whole(path)?;
                match key.data == data {
                    true => Ok(Observed::Resumable(key)),
                    false => Err(format!("resumed on data {data} it gives the results of data {}", key.data)),
                }
            }
            Err(RunError::DataChanged { .. }) => Ok(Observed::OtherData(settings_of(path)?)),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Cuts a file in half, where it is there.
fn cut(path: &Path) {
    if let Ok(bytes) = fs::read(path) {
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn copy_folder(from: &Path, to: &Path) {
    if !from.is_dir() {
        return;
    }
    fs::create_dir_all(to).unwrap();
    for name in names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

fn settings_of(path: &Path) -> Result<Settings, String> {
    let config = fedsi_run::settings::read_config(path).map_err(|error| error.to_string())?;
    Ok(if config.rounds == 2 { Settings::Short } else { Settings::Long })
}

fn results(path: &Path) -> Results {
    let mut found = Results::new();
    // All that a summary says but how long it took and how much memory the process held.
    let summary = fs::read(path.join("summary.json")).unwrap_or_default();
    if let Ok(serde_json::Value::Object(mut summary)) = serde_json::from_slice(&summary) {
        for measured in ["seconds", "peak_rss_bytes", "files"] {
            summary.remove(measured);
        }
        found.insert("summary.json".to_owned(), serde_json::to_vec(&summary).unwrap());
    }
    for name in ["predictions.safetensors", "report_data.safetensors", "checkpoint/server.safetensors"] {
        found.insert(name.to_owned(), fs::read(path.join(name)).unwrap_or_default());
    }
    for name in names(&path.join("clients")) {
        let file = path.join("clients").join(&name);
        found.insert(format!("clients/{name}"), fs::read(file).unwrap());
    }
    found
}

/// Which run a complete one is: all of its files must be those of one undisturbed run, and its models must open.
fn whole(path: &Path) -> Result<Key, String> {
    let saved = SavedRun::open(path).map_err(|error| error.to_string())?;
    for client in saved.clients() {
        saved.client(client.id).map_err(|error| error.to_string())?;
    }
    let settings = settings_of(path)?;
    let rounds = fs::read_to_string(path.join("metrics.jsonl")).map_err(|error| error.to_string())?;
    if rounds.lines().count() != saved.config().rounds {
        return Err(format!("{} rounds in metrics.jsonl", rounds.lines().count()));
    }
    let found = results(path);
    for data in 0..2 {
        let key = Key { settings, data };
        if undisturbed(key) == found {
            return Ok(key);
        }
    }
    Err(format!("its files are not those of one run: {:?}", found.keys()))
}

/// What a run gives that nothing disturbs, made once.
fn undisturbed(key: Key) -> Results {
    let mut known = UNDISTURBED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(&key) {
        return found.clone();
    }
    let scratch = tempfile::tempdir().unwrap();
    let program = Program::new(scratch.path());
    program.write_data(key.data);
    let path = program.path(Place::Run);
    program.run(&path, key.settings, false).unwrap();
    let found = results(&path);
    known.insert(key, found.clone());
    found
}
