//! What to do about an error: libraries say what is wrong, and only the program knows its flags and commands.

use std::error::Error;

use fedsi_compare::CompareError;
use fedsi_cuda::CudaError;
use fedsi_data::DataError;
use fedsi_fl::coordinator::SnapshotError;
use fedsi_fl::executor::ExecutorError;
use fedsi_fl::{ConfigError, SimulationError, StoreError};
use fedsi_paper::PaperError;
use fedsi_run::checkpoint::CheckpointError;
use fedsi_run::saved::SavedError;
use fedsi_run::{FolderError, RunError};

const OTHER_FOLDER: &str = "choose another folder with --out";
const LESS_GPU_MEMORY: &str = "free some of it (nvidia-smi says who has it), take fewer runs at once (--jobs), or resume with --device cpu";
const NEW_RUN: &str = "start a new run with fedsi run";

/// What the user can do about an error, where its own message does not say it.
pub(crate) fn remedy(error: &anyhow::Error) -> Option<String> {
    let fixed = error.chain().find_map(fixed_remedy).map(str::to_owned);
    fixed.or_else(|| config_remedy(error)).or_else(|| data_remedy(error))
}

fn config_remedy(error: &anyhow::Error) -> Option<String> {
    match error.chain().find_map(config_error)? {
        ConfigError::Assignment { text } => Some(format!("it was given as `--set {text}`")),
        ConfigError::UnknownKey { key, .. } if key == "compare" => {
            Some("that section is for `fedsi compare` alone".to_owned())
        }
        ConfigError::UnknownKey { .. } => Some("`fedsi config` shows all keys".to_owned()),
        _ => None,
    }
}

fn data_remedy(error: &anyhow::Error) -> Option<String> {
    match error.chain().find_map(data_error)? {
        DataError::MissingDataset { dataset, dir, .. } => {
            Some(format!("`fedsi data fetch {dataset} --data-dir {}` fetches it", dir.display()))
        }
        _ => None,
    }
}

fn config_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a ConfigError> {
    match run_error(cause) {
        Some(RunError::Config(error)) => Some(error),
        _ => match cause.downcast_ref::<SavedError>() {
            Some(SavedError::Config(error)) => Some(error),
            _ => cause.downcast_ref::<ConfigError>(),
        },
    }
}

fn data_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a DataError> {
    match run_error(cause) {
        Some(RunError::Data(error)) => Some(error),
        _ => cause.downcast_ref::<DataError>(),
    }
}

fn run_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a RunError> {
    match cause.downcast_ref::<CompareError>() {
        Some(CompareError::Run(error)) => Some(error),
        _ => cause.downcast_ref::<RunError>(),
    }
}

/// A remedy that is the same whatever the error holds.
fn fixed_remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let run = error.downcast_ref().and_then(of_run);
    let folder = || error.downcast_ref().and_then(of_folder);
    let saved = || error.downcast_ref().and_then(of_saved);
    let compare = || error.downcast_ref().and_then(of_comparison);
    let paper = || error.downcast_ref().and_then(of_paper);
    run.or_else(folder).or_else(saved).or_else(compare).or_else(paper)
}

fn of_run(error: &RunError) -> Option<&'static str> {
    match error {
        RunError::Folder(error) => of_folder(error),
        RunError::Device(CudaError::OutOfMemory { .. }) => Some(LESS_GPU_MEMORY),
        RunError::Device(_) => Some("use --device cpu, or --device auto, which falls back to it"),
        RunError::Simulation(SimulationError::Executor(ExecutorError::Worker(error))) => {
            error.downcast_ref::<CudaError>().map(|error| match error {
                CudaError::OutOfMemory { .. } => LESS_GPU_MEMORY,
                _ => "resume it, on the GPU or with --device cpu",
            })
        }
        RunError::Checkpoint(error) => of_checkpoint(error),
        RunError::DataChanged { .. } => {
            Some("put the data back as it was, or start a new run with fedsi run --force")
        }
        RunError::DataChangedWhileRead { .. } => Some("start again once nothing writes to it"),
        RunError::States(_) => Some("resume that one, or start a new run with fedsi run"),
        RunError::Origin(_) => Some(NEW_RUN),
        _ => None,
    }
}

fn of_checkpoint(error: &CheckpointError) -> Option<&'static str> {
    match error {
        CheckpointError::Snapshot { source: SnapshotError::Store(StoreError::NotHeld), .. } => {
            Some("give the folder that holds them with --state-dir, or start a new run with fedsi run")
        }
        CheckpointError::Snapshot { source: SnapshotError::Store(StoreError::NotStored), .. } => {
            Some("leave --state-dir out, or start a new run with fedsi run")
        }
        CheckpointError::OtherSettings { .. } | CheckpointError::Snapshot { .. } => Some(NEW_RUN),
        _ => None,
    }
}

fn of_folder(error: &FolderError) -> Option<&'static str> {
    match error {
        FolderError::HoldsARun { .. } => Some("choose another folder with --out, or --force to replace it"),
        FolderError::NotAFolder { .. }
        | FolderError::CannotBeMade { .. }
        | FolderError::CannotBeRead { .. }
        | FolderError::ForeignEntry { .. }
        | FolderError::ForeignFiles { .. }
        | FolderError::Link { .. }
        | FolderError::JustTaken { .. } => Some(OTHER_FOLDER),
        _ => None,
    }
}

fn of_saved(error: &SavedError) -> Option<&'static str> {
    match error {
        SavedError::NotARun { .. } => Some("give the folder that `fedsi run` wrote"),
        SavedError::NoModels { .. } => {
            Some("run it again with true, or fit a model to the client's data with --fit")
        }
        SavedError::FewCalibrationRows { .. } => {
            Some("ask for a lower level with --conformal, or make a run with more test rows")
        }
        SavedError::FewHeldOutRows { .. } => {
            Some("ask for a lower level with --conformal, or give --fit more rows (one of five is held out)")
        }
        SavedError::NoThreshold { .. } => Some("leave --coverage and --risk out"),
        SavedError::NoRisk => Some("leave --risk out, and choose a share to answer with --coverage"),
        _ => None,
    }
}

fn of_paper(error: &PaperError) -> Option<&'static str> {
    match error {
        PaperError::Compare(error) => of_comparison(error),
        PaperError::Foreign { .. } | PaperError::OtherExperiment { .. } => Some(OTHER_FOLDER),
        _ => None,
    }
}

fn of_comparison(error: &CompareError) -> Option<&'static str> {
    match error {
        CompareError::Run(error) => of_run(error),
        CompareError::Duplicate { .. } => Some("name each method once in --methods"),
        CompareError::With { .. } => Some("see --with"),
        CompareError::Column { .. } => Some("choose among these with --columns"),
        CompareError::NoMethods => Some("--methods is empty: name methods with commas between, or `all`"),
        CompareError::NoSeeds => Some("--seeds 0 compares nothing: ask for at least 1, better 5"),
        CompareError::Reference { .. } => Some("name one of them with --reference, or add it to --methods"),
        CompareError::SeedRange { .. } | CompareError::TooManySeeds { .. } => {
            Some("ask for fewer with --seeds or --tune-seeds, or a lower first one with --seed")
        }
        CompareError::Foreign { .. } => Some(OTHER_FOLDER),
        CompareError::InUse { .. } => {
            Some("wait until it ends, or choose another folder (--out; of fedsi paper --runs)")
        }
        CompareError::Differs { .. } | CompareError::UnfinishedDiffers { .. } => {
            Some("choose another folder with --out, or --force to replace runs that differ")
        }
        CompareError::OtherData { .. } => Some(
            "the same command makes those that differ from the data as it is now again, once it is there",
        ),
        CompareError::UnreadableSummary { .. } => {
            Some("choose another folder with --out, or --force to replace the run")
        }
        CompareError::Interrupted { .. } => Some("the same command resumes it"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_within_errors_have_the_same_remedy() {
        let inner = || FolderError::HoldsARun { path: "r".into() };
        let run = RunError::from(inner());
        let compare = CompareError::from(inner());
        let all: [&(dyn Error + 'static); 3] = [&inner(), &run, &compare];
        for error in all {
            assert!(fixed_remedy(error).is_some_and(|text| text.contains("--force")), "{error}");
        }
        let in_use = CompareError::InUse { path: "c".into() };
        assert!(!in_use.to_string().contains("wait"), "the library gives no remedy: {in_use}");
        assert!(fixed_remedy(&in_use).is_some_and(|text| text.contains("wait")));
        assert_eq!(fixed_remedy(&RunError::Interrupted { round: 1, rounds: 2 }), None);
    }
}
