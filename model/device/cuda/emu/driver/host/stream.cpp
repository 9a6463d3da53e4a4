// stream.cpp: streams and events. A stream's work runs as late as possible, when a call
// waits for it, so that a missing wait or event changes the results.
#include "state.h"

#include <time.h>

// now returns the time in milliseconds.
static double now() {
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return 1e3 * t.tv_sec + 1e-6 * t.tv_nsec;
}

// step runs the first operation of a queue that is not empty. A failure discards all
// queues, as a sticky error does.
static CUresult step(CUstream stream) {
	Operation next = std::move(stream->queue.front());
	stream->queue.pop_front();
	CUresult r = next();
	if (!r) return r;
	for (auto &s : context.streams) s->queue.clear();
	return r;
}

CUresult finish(CUstream stream) {
	while (!stream->queue.empty())
		if (CUresult r = step(stream)) return r;
	return context.failure;
}

CUresult finish_all() {
	for (size_t i = context.streams.size(); i-- > 0;)
		if (CUresult r = finish(context.streams[i].get())) return r;
	return context.failure;
}

CUresult cuStreamCreate(CUstream *out, unsigned flags) {
	BEGIN;
	NEED(flags == CU_STREAM_NON_BLOCKING); // others synchronize with the default stream, which is not emulated
	context.streams.emplace_back(new CUstream_st);
	*out = context.streams.back().get();
	return CUDA_SUCCESS;
}

// Destroying a stream waits for its work here. A real driver returns at once and
// releases the stream later.
CUresult cuStreamDestroy(CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream));
	CUresult r = finish(stream);
	remove_object(context.streams, stream);
	return settings.close ? CUDA_ERROR_UNKNOWN : r;
}

// capturing returns the error of operations that are not allowed while a stream captures.
static CUresult capturing(CUstream stream) {
	return stream->capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

// cuStreamSynchronize runs this stream's queue, and other queues only as far as events
// demand.
CUresult cuStreamSynchronize(CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream));
	if (CUresult r = capturing(stream)) return r;
	return finish(stream);
}

CUresult cuStreamQuery(CUstream stream) {
	BEGIN;
	NEED(has(context.streams, stream));
	if (stream->queue.empty()) return CUDA_SUCCESS;
	// A query makes progress by one operation, so that polling ends.
	if (CUresult r = step(stream)) return r;
	return stream->queue.empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventCreate(CUevent *out, unsigned) {
	BEGIN;
	context.events.emplace_back(new CUevent_st);
	*out = context.events.back().get();
	return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
	BEGIN;
	NEED(remove_object(context.events, event));
	return CUDA_SUCCESS;
}

// Recording queues an operation that completes the recording when the stream gets there.
CUresult cuEventRecord(CUevent event, CUstream stream) {
	BEGIN;
	NEED(has(context.events, event) && has(context.streams, stream));
	if (CUresult r = capturing(stream)) return r;
	auto recording = std::make_shared<Recording>(Recording{stream, false, 0});
	event->last = recording;
	stream->queue.push_back([recording] {
		recording->complete = true;
		recording->when = now();
		return CUDA_SUCCESS;
	});
	return CUDA_SUCCESS;
}

// reach runs the recording's stream up to the recording.
static CUresult reach(const Recording &recording) {
	while (!recording.complete) {
		// A stream that was destroyed has finished its work before.
		if (!has(context.streams, recording.stream) || recording.stream->queue.empty()) return context.failure;
		if (CUresult r = step(recording.stream)) return r;
	}
	return CUDA_SUCCESS;
}

// Waiting queues an operation that first runs the recording's stream up to it. An event
// that was never recorded counts as complete, as in CUDA.
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
	BEGIN;
	NEED(has(context.events, event) && has(context.streams, stream));
	if (CUresult r = capturing(stream)) return r;
	if (auto recording = event->last) stream->queue.push_back([recording] { return reach(*recording); });
	return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event) {
	BEGIN;
	NEED(has(context.events, event));
	return event->last ? reach(*event->last) : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent event) {
	BEGIN;
	NEED(has(context.events, event));
	if (!event->last || event->last->complete) return CUDA_SUCCESS;
	if (CUresult r = step(event->last->stream)) return r;
	return event->last->complete ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

// The time is that of the emulation: it is positive and increasing, and says nothing
// about a GPU.
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
	BEGIN;
	NEED(has(context.events, start) && has(context.events, end) && start->last && end->last);
	if (!start->last->complete || !end->last->complete) return CUDA_ERROR_NOT_READY;
	*ms = (float)(end->last->when - start->last->when);
	return CUDA_SUCCESS;
}
