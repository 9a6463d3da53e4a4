package train

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"scalewm/dataset"
	"scalewm/model/device"
	"scalewm/model/device/ref"
)

// roomy is a device with separate memory for frames. SendBytes copies no earlier than
// WaitSent requires. After failAfter pieces (0: never) the device fails.
type roomy struct {
	device.Device
	room, failAfter int
	pieces          atomic.Int32 // number of calls of SendBytes, which readers of frames inspect
	late            []func()
}

func (r *roomy) FreeBytes() int { return r.room }

func (r *roomy) SendBytes(dst device.Bytes, at int, src []byte) {
	r.pieces.Add(1)
	r.late = append(r.late, func() { r.Device.SendBytes(dst, at, src) })
}

func (r *roomy) WaitSent() {
	for _, f := range r.late {
		f()
	}
	r.late = nil
}

func (r *roomy) Sync() { r.WaitSent(); r.Device.Sync() }

func (r *roomy) Err() error {
	if r.failAfter > 0 && int(r.pieces.Load()) >= r.failAfter {
		return errors.New("the GPU failed")
	}
	return r.Device.Err()
}

// bytesOfAll is the size of all frames of the world.
const bytesOfAll = episodes * length * frameSize * frameSize * 3

// longOn returns options of a training that uses more frames than the data set has,
// on a device with room for all of them.
func longOn(t *testing.T, method string, room int) (Options, *roomy) {
	o := longer(t, method)
	r := &roomy{Device: ref.New(), room: room}
	o.Dev = r
	return o, r
}

func resident(t *testing.T, out string) bool {
	t.Helper()
	c, err := ReadClock(out)
	if err != nil {
		t.Fatal(err)
	}
	return c.Resident
}

// Frames that are resident on the device, sent step by step or copied synchronously
// give the same bytes. They are resident if they take at most three quarters of the
// free memory.
func TestResidentOrSent(t *testing.T) {
	for _, method := range learners {
		plain := longer(t, method)
		mustRun(t, plain)
		want := folder(t, plain.Out)
		for _, c := range []struct {
			room int
			want bool
		}{{0, false}, {bytesOfAll, false}, {bytesOfAll/3*4 - 4, false}, {bytesOfAll / 3 * 4, true}, {1 << 40, true}} {
			o, _ := longOn(t, method, c.room)
			mustRun(t, o)
			sameFolder(t, method, folder(t, o.Out), want)
			if got := resident(t, o.Out); got != c.want {
				t.Errorf("%s with room for %d bytes: frames on the device is %t", method, c.room, got)
			}
		}
	}
}

// If the remaining steps use fewer frames than the data set has, it is not uploaded.
func TestShortTrainingIsSent(t *testing.T) {
	o, _ := longOn(t, "lewm", 1<<40)
	o.Config.Steps = 1 + episodes*length/(o.Config.Batch*4)
	mustRun(t, o)
	if resident(t, o.Out) {
		t.Error("all frames were uploaded for as many frames of batches")
	}
}

// bad is a reader of frames that fails, or cancels the training, from some moment on.
type bad struct {
	dataset.FrameReader
	at   func() bool
	then func() error
}

func (b bad) Frame(row int, dst []byte) error {
	if b.at() {
		if err := b.then(); err != nil {
			return err
		}
	}
	return b.FrameReader.Frame(row, dst)
}

// After an interruption or a failure during the upload of all frames, the training can be
// completed and has the same bytes.
func TestUploadEndsEarly(t *testing.T) {
	whole, _ := longOn(t, "scale", 0)
	mustRun(t, whole)
	want := folder(t, whole.Out)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		then func() error
		want string
	}{
		"interruption": {ctx, func() error { cancel(); return nil }, "stopped after step 1"},
		"changed data": {context.Background(), func() error { return errors.New("the file is shorter") }, "uploading all frames to the device: reading frames: the file is shorter"},
	} {
		o, r := longOn(t, "scale", 1<<40)
		frames := o.Frames
		o.Frames = func(ctx context.Context) (dataset.FrameReader, func() error, error) {
			f, free, err := frames(ctx)
			// The first step reads two batches. Later reads belong to the upload of
			// all frames.
			return bad{f, func() bool { return r.pieces.Load() >= 2 }, c.then}, free, err
		}
		o.Workers = 1
		_, err := Run(c.ctx, o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		o.Frames = frames
		mustRun(t, o)
		sameFolder(t, name, folder(t, o.Out), want)
	}
}

// If the device fails during the upload, Run returns its error and writes nothing
// afterwards.
func TestDeviceFailsInUpload(t *testing.T) {
	o, r := longOn(t, "lewm", 1<<40)
	r.failAfter = 3 // two batches, then a piece of the upload
	_, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "uploading all frames to the device: the GPU failed") {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, resumeName)); err == nil {
		t.Error("a resume point of a lost device")
	}
	healthy, _ := longOn(t, "lewm", 1<<40)
	healthy.Out = o.Out
	mustRun(t, healthy)
	again, _ := longOn(t, "lewm", 0)
	mustRun(t, again)
	for name, b := range files(t, again.Out) {
		if !bytes.Equal(files(t, o.Out)[name], b) {
			t.Errorf("%s differs after a lost device", name)
		}
	}
}
