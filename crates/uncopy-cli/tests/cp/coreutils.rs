//! Facts about `cp(1)` that the tests of GNU coreutils (`tests/cp`) establish, for the flags that both
//! have: each must hold of `uncopy cp`, and of the `cp` that is installed.

use std::path::Path;

use testbed::{Case, Place, Program};

pub(crate) fn cases() -> Vec<Case> {
    testbed::cases![[] what_the_tests_of_cp_establish]
}

/// A command in a new directory, and its effects.
struct Fact {
    /// Name of the test in `tests/cp`.
    test: &'static str,
    /// Commands of a shell that prepare it.
    given: &'static str,
    /// Words of the command line.
    line: &'static str,
    /// Whether `cp` exits with 0.
    succeeds: bool,
    /// Commands of a shell that hold afterwards.
    then: &'static str,
}

const fn yes(
    test: &'static str,
    given: &'static str,
    line: &'static str,
    then: &'static str,
) -> Fact {
    Fact { test, given, line, succeeds: true, then }
}

const fn no(
    test: &'static str,
    given: &'static str,
    line: &'static str,
    then: &'static str,
) -> Fact {
    Fact { test, given, line, succeeds: false, then }
}

#[rustfmt::skip]
const FACTS: &[Fact] = &[
    // Symbolic links that are named.
    yes("cp-HL", "mkdir src d; echo f > f; ln -s f slink; ln -s no-such src/slink", "-RH src slink d",
        "test -L d/src/slink; test ! -L d/slink; test $(cat d/slink) = f"),
    yes("cp-deref", "mkdir a b d; echo x > a/foo; ln -s ../a/foo b", "-RL a b d",
        "test ! -L d/b/foo; test $(cat d/b/foo) = x"),
    yes("deref-slink", "echo x > f; ln -s f slink", "-L slink c", "test ! -L c; test $(cat c) = x"),
    yes("deref-slink", "echo x > f; ln -s f slink; mkdir d", "--dereference slink d", "test ! -L d/slink"),
    no("link-deref", "ln -s nowhere dangle", "-L dangle c", "test ! -e c"),
    no("link-deref", "ln -s nowhere dangle", "dangle c", "test ! -e c"),
    no("link-deref", "ln -s nowhere dangle", "-H dangle c", "test ! -e c"),
    yes("link-deref", "ln -s nowhere dangle", "-P dangle c", "test $(readlink c) = nowhere"),
    yes("no-deref-link1", "mkdir a; ln -s no-such a/b; ln -s no-such a/c; mkdir d", "-dR a d",
        "test $(readlink d/a/b) = no-such; test $(readlink d/a/c) = no-such"),
    yes("no-deref-link2", "echo x > a; ln a b; mkdir c", "-d a b c", "test c/a -ef c/b; test ! c/a -ef a"),
    yes("no-deref-link3", "echo x > a; ln a b; mkdir c", "-dR a b c", "test c/a -ef c/b"),
    yes("preserve-link", "mkdir s; echo x > s/f; ln s/f s/g; mkdir d", "-a s/f s/g d", "test d/f -ef d/g"),
    yes("preserve-link", "echo x > f; ln f g; mkdir d", "--preserve=links f g d", "test d/f -ef d/g"),
    yes("preserve-link", "echo x > f; ln f g; mkdir d", "f g d", "test ! d/f -ef d/g; test $(cat d/g) = x"),
    yes("preserve-link", "mkdir s d; echo x > s/f; ln s/f s/g", "-a --no-preserve=links s d",
        "test ! d/s/f -ef d/s/g"),
    yes("preserve-link", "mkdir s d; echo x > f; ln -s f s1; ln f s2", "-L --preserve=links s1 f d",
        "test $(cat d/s1) = x; test ! -L d/s1"),
    yes("slink-2-slink", "echo a > a; echo b > b; ln -s a sa; ln -s b sb", "-d sa sb",
        "test $(readlink sb) = a; test $(cat b) = b"),
    yes("sparse", "echo x > f; ln -s f l", "-P l m", "test $(readlink m) = f"),
    no("thru-dangling", "ln -s no-such d; echo hi > f", "f d", "test ! -e no-such; test -L d"),
    no("trailing-slash", "echo x > f", "f d/", "test ! -e d"),
    no("trailing-slash", "echo x > f; echo y > e", "f e/", "test $(cat e) = y"),
    yes("cp-deref", "echo f > f; ln -s f l", "-LP l c", "test -L c"),
    yes("cp-deref", "echo f > f; ln -s f l", "-PL l c", "test ! -L c"),
    yes("cp-deref", "mkdir s; echo f > s/f; ln -s f s/l", "-aL s c", "test ! -L c/l; test $(cat c/l) = f"),
    yes("cp-deref", "mkdir s; echo f > s/f; ln -s f s/l", "-La s c", "test -L c/l"),
    // Directories.
    no("dir-vs-file", "mkdir d; echo x > f", "-R d f", "test -f f"),
    no("dir-vs-file", "mkdir d; echo x > f; mkdir e e/f", "f -T e/f", "test -d e/f"),
    no("dir-vs-file", "mkdir d", "d e", "test ! -e e"),
    yes("dir-slash", "mkdir d dest; echo x > d/f", "-r d/ dest", "test $(cat dest/d/f) = x"),
    yes("dir-slash", "mkdir d; echo x > d/f", "-r d/ dest", "test $(cat dest/f) = x"),
    yes("dir-slash", "mkdir d; echo x > d/f", "-r d dest/", "test $(cat dest/f) = x"),
    yes("dir-slash", "mkdir d dest; echo x > d/f; ln -s d l", "-r l/ dest", "test -d dest/l; test ! -L dest/l"),
    yes("dir-slash", "mkdir d dest; echo x > d/f", "-r d/. dest", "test $(cat dest/f) = x; test ! -e dest/d"),
    yes("strip-trailing-slashes", "mkdir d dest; echo x > d/f; ln -s d l", "-r --strip-trailing-slashes l/ dest",
        "test -L dest/l"),
    no("into-self", "mkdir d", "-R d d", "true"),
    no("into-self", "mkdir a b; echo x > a/f", "-R a a/b", "test $(cat a/f) = x"),
    yes("src-base-dot", "mkdir x y; echo f > x/f", "-a x/. y", "test $(cat y/f) = f"),
    yes("existing-perm-dir", "umask 002; mkdir -p -m ug-s,u=rwx,g=rwx,o=rx src/dir; mkdir -p -m ug-s,u=rwx,g=,o= dst/dir",
        "-r src/. dst/", "test $(stat -c %a dst/dir) = 700"),
    yes("slink-2-dir", "mkdir s d; echo x > s/f; ln -s d e", "-r s e", "test $(cat d/s/f) = x"),
    no("abuse", "mkdir a b c; echo 1 > a/f; echo 2 > b/f", "a/f b/f c", "true"),
    yes("abuse", "mkdir a c; echo 1 > a/f; echo 2 > g", "a/f g c", "test $(cat c/f)$(cat c/g) = 12"),
    no("into-self", "mkdir -p home backup victim; echo v > victim/v; ln -s ../victim home/backup; echo b > backup/f",
        "-a backup home/", "test $(cat victim/v) = v; test ! -e victim/f; test -L home/backup"),
    no("into-self", "mkdir -p home backup victim; ln -s ../victim home/backup; echo b > backup/f",
        "-r -t home backup", "test ! -e victim/f; test -L home/backup"),
    no("into-self", "mkdir -p home backup victim; ln -s ../victim home/backup; echo b > backup/f",
        "-r --remove-destination backup home", "test ! -e victim/f; test -L home/backup"),
    no("no-target-directory", "mkdir -p backup victim; ln -s victim l; echo b > backup/f", "-rT backup l", "test ! -e victim/f; test -L l"),
    yes("no-target-directory", "mkdir -p backup victim; ln -s victim l; echo b > backup/f", "-rT backup l/", "test -f victim/f; test -L l"),
    yes("slink-2-dir", "mkdir -p backup victim; ln -s victim l; echo b > backup/f", "-r backup/. l", "test -f victim/f; test -L l"),
    yes("src-base-dot", "mkdir a b d; echo 1 > a/f; echo 2 > b/g", "-r a/. b/. d", "test $(cat d/f)$(cat d/g) = 12"),
    yes("abuse", "mkdir -p x/a y/a d; echo 1 > x/a/f; echo 2 > y/a/g", "-r x/a y/a d", "test $(cat d/a/f)$(cat d/a/g) = 12"),
    yes("strip-trailing-slashes", "mkdir src dst; echo x > src/f", "--strip-trailing-slashes -r src/./ dst",
        "test -f dst/f; test ! -e dst/src"),
    // Destinations that end in a slash.
    no("trailing-slash", "echo x > f; echo y > e", "-r f e/", "test $(cat e) = y"),
    no("trailing-slash", "echo x > f; echo y > e", "-aT f e/", "test $(cat e) = y"),
    no("trailing-slash", "echo x > f; echo y > e; touch -d 2001-01-01 e", "-uT f e/", "test $(cat e) = y"),
    no("trailing-slash", "echo x > f; echo y > e; touch -d 2001-01-01 e", "-u f e/.", "test $(cat e) = y"),
    no("trailing-slash", "echo x > f", "-r f new/", "test ! -e new"),
    no("trailing-slash", "ln -s x l", "-rP l new/", "test ! -L new"),
    // Names that are taken stay.
    yes("cp-i", "mkdir -p s d/c; echo x > s/c", "-P -n s/c d", "test -d d/c"),
    yes("cp-i", "mkdir -p s d/c; echo x > s/c", "-rn s/c d", "test -d d/c"),
    yes("cp-i", "mkdir -p s d/c; echo x > s/c", "-n s/c d", "test -d d/c"),
    yes("cp-i", "mkdir -p s d/c; echo x > s/c", "-nT s/c d/c", "test -d d/c"),
    yes("cp-i", "mkdir -p s d/s/c; echo x > s/c; echo x > s/f", "-rn s d", "test -d d/s/c; test -f d/s/f"),
    no("cp-i", "mkdir -p d; echo x > f", "-rnT d f", "test -f f"),
    // FIFOs that links lead to.
    yes("special-files", "mkdir s; mkfifo p; ln -s ../p s/l", "-aL s d", "test -p d/l; test ! -L d/l"),
    yes("special-files", "mkfifo p; ln -s p l", "-aH l d", "test -p d; test ! -L d"),
    yes("special-files", "mkfifo p; ln -s p l", "-aL l d", "test -p d; test ! -L d"),
    // Permissions and times.
    yes("perm", "echo x > f; chmod 751 f; umask 077", "f g", "test $(stat -c %a g) = 751 -o $(stat -c %a g) = 700"),
    yes("perm", "echo x > f; chmod 751 f; echo y > g; chmod 640 g", "f g", "test $(stat -c %a g) = 640; test $(cat g) = x"),
    yes("preserve-2", "echo x > f; chmod 751 f; touch -d 2001-01-01 f", "--preserve=mode f g",
        "test $(stat -c %a g) = 751; test $(stat -c %Y g) != $(stat -c %Y f)"),
    yes("preserve-2", "echo x > f; chmod 751 f; touch -d 2001-01-01 f; umask 077", "--preserve=timestamps f g",
        "test $(stat -c %Y g) = $(stat -c %Y f)"),
    yes("preserve-2", "echo x > f; chmod 751 f; touch -d 2001-01-01 f", "-p f g",
        "test $(stat -c %a g) = 751; test $(stat -c %Y g) = $(stat -c %Y f)"),
    yes("preserve-2", "echo x > f; touch -d 2001-01-01 f", "-p --no-preserve=timestamps f g",
        "test $(stat -c %Y g) != $(stat -c %Y f)"),
    yes("preserve-slink-time", "ln -s no-such l; touch -h -d 2001-01-01 l", "-dp l m",
        "test $(stat -c %Y m) = $(stat -c %Y l)"),
    yes("parent-perm", "mkdir s; chmod 700 s; echo x > s/f", "-a s d", "test $(stat -c %a d) = 700"),
    yes("existing-perm-race", "echo x > f; chmod 600 f", "-p f g", "test $(stat -c %a g) = 600"),
    yes("special-bits", "mkdir s; chmod 1777 s; mkdir -m 1755 s/t; mkdir s/t/u", "-r s d", "test -k d; test -k d/t; test ! -k d/t/u"),
    yes("special-bits", "mkdir -p s/t d; chmod 1777 s/t", "-rT s d", "test -k d/t"),
    yes("special-bits", "mkdir -p s/t d/t; chmod 1777 s/t", "-rT s d", "test ! -k d/t"),
    yes("special-bits", "mkdir -p s/t d; chmod 1777 s s/t; echo x > s/t/f", "--parents s/t/f d", "test -k d/s; test -k d/s/t"),
    yes("special-bits", "mkdir -p s/t d; chmod 1777 s s/t; echo x > s/t/f", "-r --parents s/t d", "test -k d/s; test -k d/s/t"),
    yes("special-bits", "mkdir s; echo x > s/f; chmod 1644 s/f", "-r s d", "test ! -k d/f"),
    // Hard links.
    yes("link", "mkdir -p d/e; echo x > d/e/f", "-rl d c", "test d/e/f -ef c/e/f"),
    yes("link", "echo x > f; ln f g", "-l f g", "test f -ef g"),
    no("link", "echo x > f; echo y > g", "-l f g", "test $(cat g) = y"),
    yes("link", "echo x > f; echo y > g", "-lf f g", "test f -ef g"),
    yes("link-deref", "echo x > f; ln -s f l", "-l l h", "test f -ef h; test ! -L h"),
    yes("link-deref", "echo x > f; ln -s f l", "-lL l h", "test f -ef h; test ! -L h"),
    yes("link-no-deref", "echo x > f; ln -s f l", "-lP l h", "test -L h; test $(stat -c %i h) = $(stat -c %i l)"),
    yes("link-symlink", "ln -s no-such l; touch -h -d 2001-01-01 l", "-al l h", "test $(stat -c %i h) = $(stat -c %i l)"),
    no("link-deref", "ln -s nowhere l", "-lL l h", "test ! -e h"),
    yes("link-preserve", "mkdir s; echo x > s/f; ln -s f s/l", "-al s c", "test -L c/l; test c/f -ef s/f"),
    no("link", "mkdir d", "-l d e", "test ! -e e"),
    yes("preserve-link", "echo x > f; ln f g; mkdir d", "--preserve=all -t d f g", "test d/f -ef d/g"),
    yes("preserve-link", "echo x > f; ln f g; mkdir d", "-t d --preserve=all f g", "test d/f -ef d/g"),
    yes("preserve-link", "echo x > f; ln f g; mkdir d", "-t d -d f g", "test d/f -ef d/g"),
    yes("preserve-link", "mkdir s; echo x > s/f; ln s/f s/g; mkdir d", "-r --preserve=all -t d s/f s/g", "test d/f -ef d/g"),
    yes("cp-u", "mkdir s d; echo x > s/a; ln s/a s/b; cp -p s/a d/a", "-auT s d", "test d/a -ef d/b"),
    yes("cp-u", "mkdir s d; echo x > s/a; ln s/a s/b; cp -p s/b d/b", "-auT s d", "test d/a -ef d/b"),
    yes("cp-u", "mkdir d; echo x > a; ln a b; cp -p a d/a", "-du a b d", "test d/a -ef d/b"),
    yes("cp-u", "mkdir s d; echo x > s/a; ln s/a s/b; cp -p s/a d/a; ln d/a d/b", "-auT s d", "test d/a -ef d/b"),
    yes("cp-u", "mkdir s d; echo x > s/a; ln s/a s/b; echo y > d/a", "-anT s d", "test $(cat d/a)$(cat d/b) = yx; test ! d/a -ef d/b"),
    // Flags that are given again, as behind an alias, or have no effect.
    yes("flags", "mkdir s; echo x > s/f", "-r -r s d", "test $(cat d/f) = x"),
    yes("flags", "mkdir s; echo x > s/f", "-rR -a -a --recursive s d", "test $(cat d/f) = x"),
    yes("flags", "echo x > f", "-vv f g", "test $(cat g) = x"),
    yes("flags", "echo x > f; echo y > g; chmod 0444 g", "-f -f f g", "test $(cat g) = x"),
    yes("flags", "echo x > f; echo y > g", "-n -n f g", "test $(cat g) = y"),
    yes("flags", "echo x > f", "-ppuu -dd -PP f g", "test $(cat g) = x"),
    yes("flags", "echo x > f; echo y > g", "-bb f g", "test $(cat g~) = y"),
    yes("flags", "echo x > f; echo y > g", "--backup=numbered --backup=simple f g", "test $(cat g~) = y; test ! -e g.~1~"),
    yes("flags", "echo x > f; echo y > g", "--backup=simple --backup=numbered f g", "test $(cat g.~1~) = y; test ! -e g~"),
    yes("flags", "echo x > f; echo y > g", "-b --backup=none f g", "test $(cat g) = x; test ! -e g~"),
    yes("flags", "echo x > f", "-x f g", "test $(cat g) = x"),
    yes("flags", "echo x > f; mkdir d", "-xx -t d f", "test $(cat d/f) = x"),
    no("flags", "mkdir s", "-x s d", "test ! -e d"),
    no("flags", "echo x > f; mkdir d e", "-t d -t e f", "test ! -e d/f; test ! -e e/f"),
    // Backups.
    yes("backup-1", "echo a > a; echo b > b", "-b -S .old a b", "test $(cat b)$(cat b.old) = ab"),
    yes("backup-1", "echo a > a; echo b > b; echo c > b~", "--backup=simple a b", "test $(cat b)$(cat b~) = ab"),
    yes("cp-mv-backup", "echo a > a; echo b > b", "--backup=numbered a b", "test $(cat b)$(cat b.~1~) = ab; test ! -e b~"),
    yes("cp-mv-backup", "echo a > a; echo b > b; echo c > b.~7~", "-b a b", "test $(cat b.~8~) = b; test $(cat b.~7~) = c"),
    yes("cp-mv-backup", "echo a > a; echo b > b", "--backup=existing a b", "test $(cat b~) = b"),
    yes("cp-mv-backup", "echo a > a; echo b > b", "--backup=none a b", "test $(cat b) = a; test ! -e b~"),
    yes("cp-mv-backup", "echo a > a", "-b a b", "test $(cat b) = a; test ! -e b~"),
    yes("backup-is-src", "echo a > a; echo b > a~; echo c > c", "--backup=numbered a~ a", "test $(cat a)$(cat a.~1~) = ba"),
    no("backup-is-src", "echo a > a; echo b > a~", "--backup=simple a~ a", "test $(cat a)$(cat a~) = ab"),
    yes("backup-dir", "mkdir -p x/y d/x; echo 1 > x/y/f; echo 2 > x/g; echo 3 > d/x/g", "-rb x d", "test $(cat d/x/g)$(cat d/x/g~) = 23"),
    yes("backup-1", "echo a > a; echo t > t; ln -s t b", "-b a b", "test ! -L b; test -L b~; test $(cat t) = t"),
    yes("backup-1", "echo a > a; echo b > b; chmod 600 b; umask 022", "-b a b", "test $(stat -c %a b~) = 600; test $(stat -c %a b) = 644"),
    yes("backup-1", "ln -s x a; echo b > b", "-dbS.o a b", "test $(readlink b) = x; test $(cat b.o) = b"),
    yes("backup-1", "echo a > a; echo b > b", "-lb a b", "test a -ef b; test $(cat b~) = b"),
    // Removed destinations.
    yes("rm-dest", "echo a > a; echo t > t; ln -s t b", "--remove-destination a b", "test ! -L b; test $(cat b)$(cat t) = at"),
    yes("rm-dest", "echo a > a; ln -s no-such b", "--remove-destination a b", "test $(cat b) = a; test ! -e no-such"),
    yes("rm-dest", "echo a > a; ln a b", "--remove-destination a b", "test ! a -ef b; test $(cat b) = a"),
    yes("rm-dest", "echo a > a; mkfifo b", "--remove-destination a b", "test -f b"),
    yes("dir-rm-dest", "mkdir d e", "-r --remove-destination d e", "test -d e/d"),
    yes("dir-rm-dest", "mkdir d e; echo x > d/f; ln -s y e/f", "-rT --remove-destination d e", "test ! -L e/f; test $(cat e/f) = x"),
    no("rm-dest", "echo a > a; mkdir b", "--remove-destination -T a b", "test -d b"),
    yes("rm-dest", "echo a > a; chmod 640 a; echo b > b; chmod 600 b; umask 022", "--remove-destination a b", "test $(stat -c %a b) = 640"),
    // Attributes alone.
    yes("attr-existing", "echo a > a; chmod 750 a; echo b > b", "--attributes-only --preserve=mode a b", "test $(cat b) = b; test $(stat -c %a b) = 750"),
    yes("attr-existing", "echo a > a; touch -d 2001-01-01 a", "-p --attributes-only a b", "test ! -s b; test $(stat -c %Y b) = $(stat -c %Y a)"),
    yes("attr-existing", "mkdir s t; echo a > s/f; echo b > b; ln -s ../b t/f", "-aT --attributes-only s t",
        "test -L t/f; test $(cat b) = b"),
    yes("attr-existing", "mkdir -p s/d t/d; echo a > s/d/f; chmod 700 s/d/f; echo b > t/d/f", "-rpT --attributes-only s t", "test $(cat t/d/f) = b; test $(stat -c %a t/d/f) = 700"),
    // Which file may be replaced, and when.
    no("same-file", "echo x > f", "f f", "test $(cat f) = x"),
    no("same-file", "echo x > f; ln -s f l", "f l", "test $(cat f) = x; test -L l"),
    no("same-file", "echo x > f; ln f h", "f h", "test $(cat f) = x"),
    no("same-file", "echo x > f", "-f f ./f", "test $(cat f) = x"),
    yes("cp-i", "echo a > a; echo b > b", "-n a b", "test $(cat b) = b"),
    yes("sparse-2", "truncate -s 1M f", "--sparse=always f g", "test $(stat -c %s g) = 1048576; test $(stat -c %b g) = 0"),
    yes("sparse", "truncate -s 1M f; echo x >> f", "--sparse=never f g", "cmp f g"),
    yes("sparse", "truncate -s 1M f; echo x >> f", "--reflink=auto f g", "cmp f g"),
    yes("reflink-auto", "echo x > f", "--reflink=never f g", "cmp f g"),
    no("reflink-auto", "echo x > f", "--reflink=sometimes f g", "test ! -e g"),
    no("reflink-perm", "echo x > f; mkdir d", "--reflink=always d f", "test $(cat f) = x"),
    yes("special-f", "echo x > f; echo y > g; chmod 0444 g", "-f f g", "test $(cat g) = x"),
    yes("special-bits", "echo x > f; chmod 4755 f", "-p f g", "test $(stat -c %a g) = 4755"),
    yes("fiemap-empty", ": > f", "f g", "test -f g; test ! -s g"),
    yes("non-utf8-name", "f=$(printf 'a\\377b'); echo x > \"$f\"; mkdir d s; mv \"$f\" s", "-r s d",
        "test $(cat d/s/*) = x"),
    yes("cp-u", "echo new > new; echo old > old; touch -d 2001-01-01 old", "-u new old", "test $(cat old) = new"),
    yes("cp-u", "echo new > new; echo old > old; touch -d 2001-01-01 old", "-u old new", "test $(cat new) = new"),
    yes("cp-u", "echo new > new; ln -s new l; echo c > c; touch -d 2001-01-01 c", "-u l c", "test ! -L c; test $(cat c) = new"),
    yes("special-files", "mkdir s; mkfifo s/p; mkdir d", "-a s d", "test -p d/s/p"),
    yes("target-directory", "mkdir d; echo x > f; echo y > g", "-t d f g", "test $(cat d/f)$(cat d/g) = xy"),
    no("target-directory", "echo d > d; echo x > f", "-t d f", "test $(cat d) = d"),
    // Paths that are kept.
    yes("cp-parents", "mkdir -p foo/bar dest; touch foo/bar/file", "--parents foo/bar/file dest",
        "test -f dest/foo/bar/file"),
    no("cp-parents", "mkdir -p foo dest; touch dest/foo; touch foo/f", "--parents foo/f dest", "test -f dest/foo"),
    no("cp-parents", "mkdir -p foo; touch foo/f a", "--parents foo/f a", "test -f a"),
    no("cp-parents", "mkdir -p foo; touch foo/f", "--parents foo/f missing", "test ! -e missing"),
    yes("cp-parents", "mkdir -p foo/bar dest d/dd; chmod g-rx foo; chmod 0 d/dd; touch foo/bar/file",
        "-r --parents foo dest", "test $(stat -c %a dest/foo) = $(stat -c %a foo); test -f dest/foo/bar/file"),
    yes("cp-parents", "mkdir -p np_dest p_dest foo/bar; chmod 1777 foo; chmod 2705 foo/bar; touch foo/bar/file",
        "-p --parents foo/bar/file p_dest", "test $(stat -c %a p_dest/foo) = 1777; test $(stat -c %a p_dest/foo/bar) = 2705"),
    yes("cp-parents", "mkdir -p np_dest foo/bar; chmod 755 foo; chmod 705 foo/bar; touch foo/bar/file",
        "--parents foo/bar/file np_dest", "test $(stat -c %a np_dest/foo/bar) = 705"),
    yes("parent-perm", "mkdir -p a/b/c a/b/d e; touch a/b/c/foo a/b/d/foo; chmod 702 a/b/c; chmod 705 a/b/d",
        "-p --parents a/b/c/foo a/b/d/foo e", "test $(stat -c %a e/a/b/c) = 702; test $(stat -c %a e/a/b/d) = 705"),
    yes("parent-perm", "mkdir -p a/b/c e/a/b/c; touch a/b/c/foo; chmod 711 a/b/c; chmod 755 e/a/b/c",
        "--parents a/b/c/foo e", "test $(stat -c %a e/a/b/c) = 755"),
    yes("slash-symlink", "mkdir -p a/b d; ln -s a l; echo x > a/b/f", "--parents l/b/f d",
        "test ! -L d/l; test $(cat d/l/b/f) = x"),
    yes("no-target-directory", "mkdir -p a b; echo x > a/f", "-rT a b", "test $(cat b/f) = x; test ! -e b/a"),
];

fn sh(script: &str, directory: &Path) -> testbed::Run {
    Program::new("sh").args(["-euc", script]).current_dir(directory).run()
}

fn what_the_tests_of_cp_establish() {
    assert!(FACTS.len() >= 60);
    let mut failures = Vec::new();
    for fact in FACTS {
        let ours = Program::new(env!("CARGO_BIN_EXE_uncopy")).arg("cp");
        for (program, name) in [(ours, "uncopy cp"), (Program::new("cp"), "cp")] {
            let place = Place::Disk.scratch();
            let given = sh(fact.given, place.path());
            let run = program.args(fact.line.split(' ')).current_dir(place.path()).run();
            let then = sh(fact.then, place.path());
            let holds = [given.status.success(), run.status.success(), then.status.success()];
            if holds != [true, fact.succeeds, true] {
                let Fact { test, given, line, .. } = fact;
                let words = [&run.stderr, &then.stderr].map(|words| words.trim());
                failures.push(format!("{test}: {given}; {name} {line}: {holds:?} {words:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
