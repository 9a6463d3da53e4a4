//go:build !library

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// This file runs before Go's runtime starts, to keep two of the program's exit codes true.
// Without it, the runtime exits with 2, our code for wrong usage, if it cannot reserve
// address space. And SIGTERM before main would end the process with 128 + 15.

// The exit codes of main.go.
enum { failed = 1, time_up = 75, interrupted = 130 };

// interrupt ends the program at once. Go's runtime forwards signals to the handlers that
// were installed before it if Go code does not handle them: before main calls
// signal.Notify, and after the first signal, when main stops listening.
static void interrupt(int sig) {
	_exit(sig == SIGUSR1 ? time_up : interrupted);
}

// listen_to installs interrupt for a signal, unless the parent process ignores it (nohup).
// SA_ONSTACK is required by Go's runtime: its threads have small stacks. SA_RESTART keeps
// system calls of C code from failing with EINTR.
static void listen_to(int sig) {
	struct sigaction old, own = {.sa_handler = interrupt, .sa_flags = SA_ONSTACK | SA_RESTART};
	sigemptyset(&own.sa_mask);
	if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_DFL)
		sigaction(sig, &own, NULL);
}

// start runs when the dynamic loader initialises the program.
__attribute__((constructor)) static void start(void) {
	const rlim_t needed = 2000000000; // address space that Go's runtime and threads reserve; little of it is used
	struct rlimit as;
	listen_to(SIGINT);
	listen_to(SIGTERM);
	listen_to(SIGUSR1);
	if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY && as.rlim_cur < needed) {
		fprintf(stderr, "scalewm: the address space is limited to %llu MB, and the program needs %llu MB to start (hint: raise the limit, ulimit -v)\n",
			(unsigned long long)as.rlim_cur / 1000000, (unsigned long long)needed / 1000000);
		_exit(failed);
	}
}
