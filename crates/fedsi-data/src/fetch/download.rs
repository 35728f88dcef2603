//! One file from one of several mirrors.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use ureq::Agent;

use super::{FetchOptions, FetchProgress};
use crate::checksum;
use crate::dataset::RemoteFile;
use crate::error::{DataError, one_line};

/// How often a mirror that delivers a part and then breaks off is asked to go on.
const ATTEMPTS: usize = 4;

/// Why an attempt at a mirror failed.
enum Failure {
    /// The mirror's fault: another attempt or mirror may do. With the reason.
    Mirror(String),
    /// The disk's fault: nothing else will do.
    Here(DataError),
}

/// Downloads a file and answers the mirror it came from.
pub(super) fn download(
    file: &RemoteFile,
    target: &Path,
    mirrors: &[String],
    options: &FetchOptions,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<String, DataError> {
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(options.patience))
        .timeout_recv_response(Some(options.patience))
        .timeout_per_read(Some(options.patience))
        // A server that unpacks or packs on the way would change the bytes that the checksum is of.
        .accept_encoding("identity")
        .user_agent(concat!("fedsi/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let part = part_of(target);
    let mut failures = Vec::new();
    for mirror in mirrors {
        let url = format!("{}/{}", mirror.trim_end_matches('/'), file.name);
        for _ in 0..ATTEMPTS {
            let before = length(&part);
            let reason = match attempt(&agent, &url, file, &part, progress) {
                Ok(()) => {
                    std::fs::rename(&part, target)
                        .map_err(|source| DataError::io("rename", &part, source))?;
                    return Ok(mirror.clone());
                }
                Err(Failure::Here(error)) => return Err(error),
                Err(Failure::Mirror(reason)) => reason,
            };
            let reported = FetchProgress::Failed {
                file: file.name.to_owned(),
                mirror: url.clone(),
                reason: reason.clone(),
            };
            progress(reported);
            failures.push(format!("{url}: {reason}"));
            // Worth another attempt: more has arrived than before, or a part that was no good has been removed.
            let after = length(&part);
            if !(after > before || (before > 0 && after == 0)) {
                break;
            }
        }
    }
    if length(&part) == 0 {
        // Nothing to take up again; most often there is no such file.
        let _ = std::fs::remove_file(&part);
    }
    failures.dedup();
    Err(DataError::Fetch { file: file.name.to_owned(), failures: failures.join("; ") })
}

/// The temporary name.
pub(crate) fn part_of(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Resumes the part that is there, or starts over; a complete file with a wrong checksum is removed.
fn attempt(
    agent: &Agent,
    url: &str,
    file: &RemoteFile,
    part: &Path,
    progress: &mut dyn FnMut(FetchProgress),
) -> Result<(), Failure> {
    let here = |action, source| Failure::Here(DataError::io(action, part, source));
    // Another packing of the same bytes may have another size, but is never much larger than the bytes.
    let most = file.size.max(file.unpacked.map_or(0, |(size, _)| size)) + (1 << 16);
    let start = length(part);
    let mut request = agent.get(url);
    if start > 0 {
        request = request.header("Range", format!("bytes={start}-"));
    }
    let mut response = request.call().map_err(|error| Failure::Mirror(one_line(&error.to_string())))?;
    let status = response.status().as_u16();
    // A 206 that was not asked for is a part of the file at best, and there is nothing that it would continue.
    let resumed = status == 206 && start > 0 && continues_at(response.headers(), start);
    let mut output = match status {
        206 if resumed => OpenOptions::new().append(true).open(part).map_err(|e| here("write", e))?,
        // The server ignores ranges: from the beginning.
        200 => File::create(part).map_err(|source| here("create", source))?,
        206 | 416 if start > 0 => {
            // Nothing can follow our part: either it is whole, or it is part of something else.
            if checksum::is_right(file, part).map_err(Failure::Here)? {
                return Ok(());
            }
            std::fs::remove_file(part).map_err(|source| here("remove", source))?;
            return Err(Failure::Mirror(format!("HTTP status {status}: the part does not fit")));
        }
        206 => return Err(Failure::Mirror("HTTP status 206, a part where all was asked for".to_owned())),
        _ => return Err(Failure::Mirror(format!("HTTP status {status}, expected 200"))),
    };
    let mut done = if resumed { start } else { 0 };
    let mut body = response.body_mut().with_config().limit(u64::MAX).reader();
    let mut buffer = vec![0_u8; 1 << 16];
    loop {
        let count = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => {
                output.sync_all().map_err(|source| here("write", source))?;
                return Err(Failure::Mirror(format!(
                    "broke off after {done} bytes: {}",
                    one_line(&error.to_string())
                )));
            }
        };
        done += count as u64;
        if done > most {
            drop(output);
            std::fs::remove_file(part).map_err(|source| here("remove", source))?;
            return Err(Failure::Mirror(format!("more than {most} bytes, expected {}", file.size)));
        }
        output.write_all(&buffer[..count]).map_err(|source| here("write", source))?;
        progress(FetchProgress::Received { file: file.name.to_owned(), done, total: file.size });
    }
    output.sync_all().map_err(|source| here("write", source))?;
    drop(output);
    progress(FetchProgress::Checking { file: file.name.to_owned() });
    if checksum::is_right(file, part).map_err(Failure::Here)? {
        return Ok(());
    }
    std::fs::remove_file(part).map_err(|source| here("remove", source))?;
    Err(Failure::Mirror(format!("{done} bytes with a wrong SHA-256, expected {}", file.sha256)))
}

/// Whether the server says that its bytes follow ours.
fn continues_at(headers: &ureq::http::HeaderMap, start: u64) -> bool {
    let range = headers.get("content-range").and_then(|value| value.to_str().ok());
    range.and_then(|range| range.strip_prefix("bytes ")).is_some_and(|range| {
        range.split_once('-').is_some_and(|(first, _)| first.trim().parse() == Ok(start))
    })
}
