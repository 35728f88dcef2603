//! `fedsi data fetch` against mirrors that have nothing good to offer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use crate::support::Scratch;

/// A server that gives everyone this answer; it ends with the test's process. Answers its address.
fn server(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let request = BufReader::new(stream.try_clone().unwrap());
            let _ = request.lines().map_while(Result::ok).find(String::is_empty);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\ngone\n";
const OTHER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n<html>login\n";

/// The error, and the files that are there, apart from beginnings that a later call resumes.
fn fails(scratch: &Scratch, mirrors: &[&str]) -> (String, Vec<String>) {
    let mirrors: Vec<&str> = mirrors.iter().flat_map(|mirror| ["--mirror", mirror]).collect();
    let ended = scratch.fedsi(&[&["data", "fetch", "mnist", "--data-dir", "d"], &mirrors[..]].concat());
    assert_eq!(ended.code, Some(1), "a mirror's failure is none of the user's: {}", ended.stderr);
    assert_eq!(ended.stdout, "");
    let errors: Vec<&str> = ended.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{}", ended.stderr);
    assert_eq!(
        ended.stderr.lines().last(),
        Some(errors[0]),
        "the error is not the last line: {}",
        ended.stderr
    );
    let files = scratch.everything().into_iter().filter(|(_, bytes)| bytes.is_some());
    (errors[0].to_owned(), files.map(|(name, _)| name).filter(|name| !name.ends_with(".part")).collect())
}

#[test]
fn a_file_that_no_mirror_has_is_a_failure_that_names_file_and_mirrors() {
    let scratch = Scratch::new();
    let (first, second) = (server(NOT_FOUND), server(NOT_FOUND));
    let (error, files) = fails(&scratch, &[&first, &second]);
    for expected in ["train-images-idx3-ubyte.gz", &first, &second, "404", "try again later"] {
        assert!(error.contains(expected), "no `{expected}` in: {error}");
    }
    assert_eq!(files, [""; 0], "something half-written");
}

#[test]
fn bytes_with_a_wrong_checksum_are_not_kept() {
    let scratch = Scratch::new();
    let mirror = server(OTHER);
    let (error, files) = fails(&scratch, &[&mirror]);
    assert!(error.contains("train-images-idx3-ubyte.gz") && error.contains(&mirror), "{error}");
    assert_eq!(files, [""; 0], "a page that is no dataset was kept");
    let ended = scratch.fedsi(&["run", "--dataset", "mnist", "--data-dir", "d", "--out", "r"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("fedsi data fetch mnist"), "{}", ended.stderr);
}

#[test]
fn a_mirror_that_cannot_be_reached_is_a_failure_in_one_line() {
    let scratch = Scratch::new();
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let (error, files) = fails(&scratch, &[&closed]);
    assert!(error.contains(&closed), "{error}");
    assert_eq!(files, [""; 0]);
}

#[test]
fn quiet_leaves_only_the_error() {
    let scratch = Scratch::new();
    let mirror = server(NOT_FOUND);
    let ended =
        scratch.fedsi(&["-q", "data", "fetch", "fashion-mnist", "--data-dir", "d", "--mirror", &mirror]);
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
}
