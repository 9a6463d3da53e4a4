#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

// What must hold before Go's runtime starts: it exits with 2, our wrong usage, where
// it gets no address space, and with 128 + 15 where SIGTERM comes before main.

enum { failed = 1, time_up = 75, interrupted = 130 };

// interrupt ends the program at once. Go's runtime calls it for a signal that the
// program does not listen to: before main does, and after the first one came.
static void interrupt(int sig) {
	_exit(sig == SIGUSR1 ? time_up : interrupted);
}

static void listen_to(int sig) {
	struct sigaction old, own = {.sa_handler = interrupt, .sa_flags = SA_ONSTACK | SA_RESTART};
	sigemptyset(&own.sa_mask);
	if (sigaction(sig, NULL, &old) == 0 && old.sa_handler == SIG_DFL) // nohup's stay ignored
		sigaction(sig, &own, NULL);
}

__attribute__((constructor)) static void start(void) {
	const rlim_t needed = 2000000000; // Go's runtime and its threads reserve most of it and use little
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
