// Command scalewm generates data, trains latent world models, plans with them
// and compares them episode by episode; `scalewm help` lists its verbs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"scalewm/dataset/collect"
	"scalewm/eval/pipeline"
)

// Exit codes; scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitFailedCells = 3
	exitInterrupted = 130
)

// errFailedCells ends a run that finished although some cells failed.
var errFailedCells = errors.New("some cells failed")

// usagef is a mistake in the command line.
func usagef(format string, args ...any) error { return pipeline.Requestf(format, args...) }

func main() {
	if os.Getenv(collect.ServeVariable) != "" {
		signal.Ignore(os.Interrupt) // the process that is served gets it too, and ends this one
		os.Exit(exitCode(collect.Serve(context.Background(), os.Stdin, os.Stdout), os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(exitCode(err, os.Stderr))
}

// run executes one command line; tests call it as the shell does.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		if len(args) > 1 {
			return run(ctx, []string{args[1], "--help"}, stdout, stderr)
		}
		printVerbs(stdout)
		if len(args) == 0 {
			return usagef("no verb given")
		}
		return nil
	}
	v, ok := lookupVerb(args[0])
	if !ok {
		return usagef("unknown verb %q%s; `scalewm help` lists the verbs", args[0], pipeline.Nearest(args[0], verbNames()))
	}
	c := newCommand(v, stdout, stderr)
	err := v.run(ctx, c, args[1:])
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return err
}

// exitCode prints err as one line and maps it to the program's exit code.
func exitCode(err error, stderr io.Writer) int {
	var usage *pipeline.RequestError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "scalewm: interrupted; run the same command again, which goes on where it can")
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "scalewm:", usage)
		return exitUsage
	case errors.Is(err, errFailedCells):
		fmt.Fprintln(stderr, "scalewm:", err)
		return exitFailedCells
	}
	fmt.Fprintln(stderr, "scalewm:", err)
	return exitFailed
}
