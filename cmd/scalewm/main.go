// Command scalewm collects data sets, trains latent world models, plans with them, and
// compares them episode by episode. `scalewm help` lists its verbs.
//
// Each verb is one file of this package, which registers it in an init function (see
// verb). A verb parses its flags, calls the library packages, and prints. All work is done
// in the libraries, which print nothing.
//
// Stdout carries results: text for people, or with --json one JSON object as the last
// line. Progress, notes, warnings and errors go to stderr. An error is one line, "scalewm:
// WHAT WENT WRONG (hint: WHAT TO DO)", followed by a line for each failed cell, if any.
//
// The exit codes are part of the interface; see exitDone and following.
//
// Every verb may be interrupted and run again. SIGINT and SIGTERM cancel the context of
// the verb, which has one second to write what it can; a second signal ends the program at
// once. SIGUSR1, by which batch systems warn of the end of a job's time, cancels the
// context too, but without a limit, and gives another exit code. Whatever is on disk then
// is valid: files get their final names only when they are complete.
package main

// The next import makes the go tool compile start.c into this package. A comment directly
// above it would be C code.

import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"scalewm/dataset/collect"
	"scalewm/dataset/safefile"
	"scalewm/eval/pipeline"
	"scalewm/eval/words"
)

// Exit codes. Scripts and batch systems rely on them.
const (
	exitDone        = 0   // everything that was requested is done
	exitFailed      = 1   // an error ended the run
	exitUsage       = 2   // a mistake in the command line; nothing was written
	exitIncomplete  = 3   // finished, but with failed cells, differences or unreadable files
	exitTimeUp      = 75  // EX_TEMPFAIL of sysexits.h: stopped by SIGUSR1; run it again
	exitInterrupted = 130 // 128 + SIGINT, as shells report it; also for SIGTERM
)

// Words that are accepted in place of a verb.
var (
	helpWords    = []string{"help", "--help", "-help", "-h"}
	versionWords = []string{"version", "--version", "-version"}
)

// errTimeUp is the cause of a cancellation by SIGUSR1, with which a batch system
// warns that the job's time is nearly up.
var errTimeUp = errors.New("time is nearly up")

// errFailedCells ends a run that finished although some cells failed
// (exitIncomplete).
var errFailedCells = errors.New("some cells failed")

// errUnread ends a run that finished without some existing but unreadable files
// (exitIncomplete).
var errUnread = errors.New("some files could not be read and are left out")

// usagef returns the error for a mistake in the command line (exitUsage).
func usagef(format string, args ...any) error { return pipeline.Requestf(format, args...) }

// grace is how long a verb may take to return after SIGINT or SIGTERM. Libraries
// check the context between units of work, some of which take longer; then the
// program exits without waiting. Work that was not written by then is done again by
// the next run, as after a kill.
const grace = time.Second

// main handles signals and process modes; run does everything else.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Collecting starts this program as a worker process, which talks to its parent over
	// stdin and stdout.
	if os.Getenv(collect.ServeVariable) != "" {
		signal.Ignore(os.Interrupt) // a terminal sends it to the parent too, which ends this process
		os.Exit(exitCode(collect.Serve(ctx, os.Stdin, os.Stdout), os.Stderr))
	}
	context.AfterFunc(ctx, func() {
		stop() // from here on a second signal ends the program at once, see start.c
		time.Sleep(grace)
		// Block renames first: otherwise the output could get its final name between the
		// check and the exit, and an "interrupted" command would have finished.
		if release := safefile.HoldRenames(); outputComplete() {
			release() // the verb is done and about to return
			return
		}
		os.Exit(exitCode(context.Canceled, os.Stderr))
	})
	// After SIGUSR1 the verb may take as long as it needs: the batch system sets the limit,
	// and the remaining time is best spent on a checkpoint.
	ctx, timeUp := context.WithCancelCause(ctx)
	warnings := make(chan os.Signal, 1)
	signal.Notify(warnings, syscall.SIGUSR1)
	go func() { <-warnings; timeUp(errTimeUp) }()
	os.Exit(exitCode(run(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// outputPath is the path of the only file that the running verb makes, if it did not
// exist before; nil for verbs that resume.
var outputPath atomic.Pointer[string]

// outputComplete reports whether the verb's file has its final name. Then an
// interrupt came too late and must not be reported: the same command would fail
// because the file exists.
func outputComplete() bool {
	path := outputPath.Load()
	if path == nil {
		return false
	}
	_, err := os.Lstat(*path)
	return err == nil
}

// run executes one command line. Tests call it in place of a process.
func run(ctx context.Context, args []string, to, stderr io.Writer) (err error) {
	outputPath.Store(nil)
	stdout := &safeWriter{Writer: to}
	stderr = &safeWriter{Writer: stderr}
	// Verbs do not check each print. A full disk behind stdout must still be an error.
	defer func() {
		if err == nil && stdout.err != nil {
			err = fmt.Errorf("printing: %w (hint: is the disk of the output file full?)", stdout.err)
		}
	}()
	// A panic is a bug in a library. Left alone it would exit with 2, our code for wrong
	// usage, and print no request to report it.
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("a bug: %v (hint: please report it with the command line and this)\n%s", bug, debug.Stack())
		}
	}()
	// Without a verb: the list of verbs, and an error, since a script has a bug then.
	if len(args) == 0 {
		printVerbs(stdout)
		return usagef("no verb given")
	}
	// "help", "help VERB" and "--help VERB".
	if slices.Contains(helpWords, args[0]) {
		topic := slices.DeleteFunc(slices.Clone(args[1:]), func(word string) bool { return slices.Contains(helpWords, word) })
		if len(topic) > 0 {
			return run(ctx, append(topic, "--help"), stdout, stderr)
		}
		printVerbs(stdout)
		return nil
	}
	if slices.Contains(versionWords, args[0]) {
		fmt.Fprintln(stdout, "scalewm", fullVersion())
		return nil
	}
	v, ok := lookupVerb(args[0])
	if !ok {
		return usagef("unknown verb %q%s; `scalewm help` lists the verbs", args[0], words.Nearest(args[0], verbNames()))
	}
	err = v.run(ctx, newCommand(v, stdout, stderr), args[1:])
	switch {
	case errors.Is(err, errHelp):
		return nil
	// After a cancellation the verb's error is a consequence of it, except errStalled,
	// which must stop the batch system from starting the job again.
	case ctx.Err() != nil && !outputComplete():
		if errors.Is(err, errStalled) {
			return err
		}
		return context.Cause(ctx)
	}
	return err
}

// safeWriter wraps stdout or stderr. It retains the first error, so that verbs need
// not check every print, and escapes control characters: names and attributes from
// files are printed and must not control the terminal.
type safeWriter struct {
	io.Writer
	err error
}

// Write implements io.Writer. It always reports success; see err.
func (p *safeWriter) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.Writer, safefile.Visible(string(b)))
	p.err = cmp.Or(p.err, err)
	return len(b), err
}

// exitCode prints err, if any, to stderr and returns the program's exit code for it.
func exitCode(err error, stderr io.Writer) int {
	stderr = &safeWriter{Writer: stderr}
	var usage *pipeline.RequestError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errTimeUp):
		fmt.Fprintln(stderr, "scalewm: stopped because the time is nearly up; run the same command again to resume")
		return exitTimeUp
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "scalewm: interrupted; run the same command again to resume")
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "scalewm:", usage)
		return exitUsage
	case errors.Is(err, errFailedCells), errors.Is(err, errUnread), errors.Is(err, errNothingPublished):
		fmt.Fprintln(stderr, "scalewm:", err)
		return exitIncomplete
	}
	fmt.Fprintln(stderr, "scalewm:", err)
	return exitFailed
}
