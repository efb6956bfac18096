//! Users with keys, JWTs and permissions: who may not do everything gets an error that says what, and nobody waits for ever.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use testbed::{Case, NatsServer, Program};

use super::{SERVER, of_plan};
use crate::work::{Work, Worker, failed};

pub(super) fn cases() -> Vec<Case> {
    testbed::cases![
        [SERVER] users_with_a_key,
        [SERVER] users_with_a_jwt,
        [SERVER] users_who_may_not_do_everything,
        [SERVER] a_user_whose_time_ends,
    ]
    .into_iter()
    .map(Case::begins_first)
    .collect()
}

fn planned(flags: &[&str]) -> Work {
    let work = Work::new();
    work.fill(10);
    work.plan(flags);
    work
}

/// A command with the credentials of a file.
fn with(name: &str, work: &Work, server: &NatsServer, credentials: &Path) -> Program {
    let program = of_plan(name, work, &server.url()).arg("--credentials").arg(credentials);
    if name == "submit" { program.arg("--ack-wait=1s") } else { program }
}

#[track_caller]
fn succeeds(work: &Work, server: &NatsServer, credentials: &Path) {
    for name in ["submit", "work", "status", "submit"] {
        let run = with(name, work, server, credentials).run();
        assert!(run.status.success(), "{name}: {}{}", run.stderr, run.stdout);
    }
    work.assert_done();
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Makes a JWT, as `nsc` does.
fn jwt(issuer: &KeyPair, subject: &str, expires: Option<u64>, nats: &Value) -> String {
    let mut claims = json!({
        "jti": "test", "iat": now(), "iss": issuer.public_key(), "sub": subject, "name": "test", "nats": nats,
    });
    if let Some(expires) = expires {
        claims["exp"] = expires.into();
    }
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let text = format!("{}.{}", encoded(&header), encoded(&claims));
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

/// A server that lets in who has a JWT of its account.
struct Signed {
    server: NatsServer,
    account: KeyPair,
}

impl Signed {
    fn start() -> Signed {
        let (operator, account, system) =
            (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
        let of_operator = json!({ "type": "operator", "version": 2 });
        let limits = json!({
            "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
            "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1,
        });
        let of_account = json!({ "type": "account", "version": 2, "limits": limits });
        let of_system = json!({ "type": "account", "version": 2 });
        let (named, system_named) = (account.public_key(), system.public_key());
        let settings = format!(
            "jetstream: {{ store_dir: \"DIRECTORY\" }}\noperator: \"{}\"\nresolver: MEMORY\n\
             system_account: {system_named}\n\
             resolver_preload: {{ {named}: \"{}\", {system_named}: \"{}\" }}",
            jwt(&operator, &operator.public_key(), None, &of_operator),
            jwt(&operator, &named, None, &of_account),
            jwt(&operator, &system_named, None, &of_system),
        );
        Signed { server: NatsServer::start_with(&settings), account }
    }

    /// Makes a file with the credentials of a new user.
    fn user(&self, work: &Work, name: &str, expires: Option<u64>, permissions: Value) -> PathBuf {
        let user = KeyPair::new_user();
        let mut nats =
            json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1 });
        if let Value::Object(permissions) = permissions {
            nats.as_object_mut().unwrap().extend(permissions);
        }
        let jwt = jwt(&self.account, &user.public_key(), expires, &nats);
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.seed().unwrap()
        );
        let file = work.scratch.join(format!("{name}.creds"));
        fs::write(&file, text).unwrap();
        file
    }
}

fn users_with_a_key() {
    let work = planned(&[]);
    let [known, unknown] = [KeyPair::new_user(), KeyPair::new_user()];
    let server = NatsServer::start_with(&format!(
        "jetstream: {{ store_dir: \"DIRECTORY\" }}\nauthorization {{ users: [ {{ nkey: {} }} ] }}",
        known.public_key()
    ));
    let seed = |name: &str, user: &KeyPair| {
        let file = work.scratch.join(name);
        fs::write(&file, format!("{}\n", user.seed().unwrap())).unwrap();
        file
    };
    let (known, unknown) = (seed("known", &known), seed("unknown", &unknown));
    for name in ["submit", "work", "status"] {
        let run = of_plan(name, &work, &server.url()).run();
        assert!(failed(&run, 11).contains("--credentials"), "{}", run.stderr);
        let run = with(name, &work, &server, &unknown).run();
        assert!(failed(&run, 11).contains("authorization violation"), "{}", run.stderr);
    }
    succeeds(&work, &server, &known);
}

fn users_with_a_jwt() {
    let work = planned(&[]);
    let signed = Signed::start();
    let (server, nothing) = (&signed.server, Value::Null);
    let ended = signed.user(&work, "ended", Some(now() - 10), nothing.clone());
    let of_another = Signed { account: KeyPair::new_account(), ..Signed::start() };
    let foreign = of_another.user(&work, "foreign", None, nothing.clone());
    for name in ["submit", "work", "status"] {
        let run = with(name, &work, server, &ended).run();
        assert!(
            failed(&run, 11).contains("the JWT of the credentials ended at 20"),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("name newer ones"), "{}", run.stderr);
        let run = with(name, &work, server, &foreign).run();
        assert!(failed(&run, 11).contains("authorization violation"), "{}", run.stderr);
        assert!(!run.stderr.contains("ended"), "{}", run.stderr);
    }
    let user = signed.user(&work, "user", Some(now() + 3600), nothing);
    succeeds(&work, server, &user);
}

fn users_who_may_not_do_everything() {
    let signed = Signed::start();
    let work = planned(&[]);
    let denied = |what: &str, subject: &str| json!({ what: { "deny": [subject] } });
    let no_streams = signed.user(&work, "streams", None, denied("pub", "$JS.API.>"));
    let no_answers = signed.user(&work, "answers", None, denied("sub", "_INBOX.>"));
    for (user, forbidden) in [
        (&no_streams, "Permissions Violation for Publish to \"$JS.API."),
        (&no_answers, "Permissions Violation for Subscription to \"_INBOX."),
    ] {
        for name in ["submit", "work", "status"] {
            let run = with(name, &work, &signed.server, user).run();
            assert!(failed(&run, 11).contains(forbidden), "{name}: {}", run.stderr);
            assert!(run.stderr.contains("let the user publish to $JS.API.>"), "{}", run.stderr);
        }
    }
    let no_units = signed.user(&work, "units", None, denied("pub", "uncopy.>"));
    let run = with("submit", &work, &signed.server, &no_units).run();
    assert!(failed(&run, 11).contains("Publish to \"uncopy."), "{}", run.stderr);
    // As docs/fleet.md has it.
    let enough = json!({
        "pub": { "allow": ["$JS.API.>", "$JS.ACK.>", "uncopy.>"] }, "sub": { "allow": ["_INBOX.>"] },
    });
    let enough = signed.user(&work, "enough", None, enough);
    assert!(with("submit", &work, &signed.server, &enough).run().status.success());
    // A worker that cannot say that a unit is done does not do it again and again.
    let mute = signed.user(&work, "mute", None, denied("pub", "$JS.ACK.>"));
    let run = with("work", &work, &signed.server, &mute).run();
    assert!(failed(&run, 11).contains("Publish to \"$JS.ACK."), "{}", run.stderr);
    let unable = signed.user(&work, "unable", None, denied("pub", "$JS.API.CONSUMER.MSG.NEXT.>"));
    let run = with("work", &work, &signed.server, &unable).run();
    assert!(failed(&run, 11).contains("CONSUMER.MSG.NEXT"), "{}", run.stderr);
    succeeds(&work, &signed.server, &enough);
}

/// The unit that was begun is done, and the next worker finds its record.
fn a_user_whose_time_ends() {
    let signed = Signed::start();
    let work = Work::new();
    fs::write(work.source().join("slow"), vec![7; 4 << 20]).unwrap();
    work.plan(&["--max-bandwidth=1Mi"]);
    let user = signed.user(&work, "user", None, Value::Null);
    assert!(with("submit", &work, &signed.server, &user).run().status.success());
    let short = signed.user(&work, "short", Some(now() + 2), Value::Null);
    let flags = ["--credentials", short.to_str().unwrap()];
    let mut worker = Worker::start(&work, &work.uncopy(), &signed.server.url(), &flags);
    assert_eq!(worker.wait().code(), Some(11), "{}", worker.output());
    let said = worker.output();
    // It may have begun too late.
    let is_said = said.contains("lets its user in no more") || said.contains("ended at");
    assert!(is_said && said.contains("; name new"), "{said}");
    succeeds(&work, &signed.server, &user);
}
