package convert

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"scalewm/dataset/safefile/fuzztest"
)

func needsFFmpeg(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("without ffmpeg on the PATH, films are only refused")
	}
}

// makeFilm writes a film of n frames at 10 frames per second whose content moves.
func makeFilm(t *testing.T, path string, n int, codec ...string) {
	t.Helper()
	args := append([]string{"-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=64x64:rate=10", "-frames:v", strconv.Itoa(n), "-pix_fmt", "yuv420p", "-c:v"}, codec...)
	if out, err := exec.Command("ffmpeg", append(args, path)...).CombinedOutput(); err != nil {
		t.Skipf("ffmpeg does not encode %v: %v, %s", codec, err, out)
	}
}

// packets returns where the packets of a film begin and end: one after another from
// the first offset of stco on, with the sizes of stsz (ISO/IEC 14496-12, 8.7.3 and
// 8.7.5).
func packets(t *testing.T, b []byte) (all [][2]int) {
	t.Helper()
	sizes, offsets := bytes.Index(b, []byte("stsz")), bytes.Index(b, []byte("stco"))
	if sizes < 0 || offsets < 0 {
		t.Fatal("the film has no table of sizes or offsets")
	}
	u32 := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
	at := u32(offsets + 12)
	for i := range u32(sizes + 12) {
		n := u32(sizes + 16 + 4*i)
		all = append(all, [2]int{at, at + n})
		at += n
	}
	return all
}

// decodeFilm returns all frames of a film.
func decodeFilm(t *testing.T, path string, n int) ([]byte, error) {
	f, err := openFilm(t.Context(), path, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	a, err := f.frames(0, n, (&Job{}).fit)
	if err == nil {
		err = f.finish(n)
	}
	return a.data, err
}

// A damaged film gives an error or the frames of the undamaged one. Damage that MP4
// and the codec cannot detect, having no checksums, is not tried: flipped bits that
// decode as other content.
func TestDamagedFilms(t *testing.T) {
	needsFFmpeg(t)
	fill := func(b []byte, v byte) {
		for i := range b {
			b[i] = v
		}
	}
	type damage func(packet []byte)
	zeros := func(p []byte) { fill(p, 0) }
	others := map[string]damage{
		"ones":       func(p []byte) { fill(p, 0xff) },
		"first half": func(p []byte) { fill(p[:len(p)/2], 0) },
	}
	within := map[string]damage{ // which libaom detects
		"last half": func(p []byte) { fill(p[len(p)/2:], 0) },
		"middle":    func(p []byte) { p[len(p)/2] ^= 0xff },
	}
	const n = 4 // packets
	for name, codec := range map[string][]string{
		"H.264": {"libx264"}, "MPEG-4": {"mpeg4"},
		"VP9": {"libvpx-vp9"}, "AV1": {"libaom-av1", "-cpu-used", "8", "-g", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "film.mp4")
			makeFilm(t, path, n, codec...)
			film, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := decodeFilm(t, path, n)
			if err != nil {
				t.Fatal(err)
			}
			try := func(what string, b []byte) {
				if err := os.WriteFile(path, b, 0o666); err != nil {
					t.Fatal(err)
				}
				got, err := decodeFilm(t, path, n)
				if err == nil && !bytes.Equal(got, want) {
					t.Errorf("%s: other frames, and no error", what)
				} else if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "(hint: ")) {
					t.Errorf("%s: %v", what, err)
				}
			}
			all := packets(t, film)
			tryPacket := func(i int, what string, f damage) {
				b := bytes.Clone(film)
				f(b[all[i][0]:all[i][1]])
				try(fmt.Sprintf("packet %d, %s", i, what), b)
			}
			for i := range all {
				tryPacket(i, "zeros", zeros)
			}
			for what, f := range others {
				tryPacket(2, what, f)
			}
			for what, f := range within {
				if name == "AV1" {
					tryPacket(2, what, f)
				}
			}
			for i := range 2 {
				try(fmt.Sprintf("cut to %d/3", i+1), film[:len(film)*(i+1)/3])
			}
		})
	}
}

// A packet without content, in a film of version 3 that is longer than its seven
// rows. Enough frames remain, but the damage must still be found.
func TestDamagedLongFilm(t *testing.T) {
	needsFFmpeg(t)
	set := filepath.Join(t.TempDir(), "set")
	if err := os.CopyFS(set, os.DirFS("testdata/lerobot3")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(set, "videos/observation.image/chunk-000/file-000.mp4")
	for _, codec := range []string{"libx264", "mpeg4", "libaom-av1"} {
		makeFilm(t, path, 12, codec, "-g", "2")
		_, notes, err := run(t, set)
		if err != nil || !strings.Contains(strings.Join(notes, "\n"), "has 12 frames, and its episodes use 7") {
			t.Fatalf("%s: notes %q, %v", codec, notes, err)
		}
		film, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{2, 9} {
			b, p := bytes.Clone(film), packets(t, film)[i]
			clear(b[p[0]:p[1]])
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
			if _, _, err := run(t, set); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "(hint: ") {
				t.Errorf("%s, packet %d: %v", codec, i, err)
			}
		}
	}
}

// A film that is really a playlist, a manifest or a script refers to another film on
// the machine. It is never followed.
func TestFilmsThatLeadElsewhere(t *testing.T) {
	needsFFmpeg(t)
	other, err := filepath.Abs("testdata/films/pixels/ep_0.mp4")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"playlist":      "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:" + other + "\n#EXT-X-ENDLIST\n",
		"live playlist": "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:" + other + "\n",
		"manifest": `<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S" profiles="urn:mpeg:dash:profile:isoff-on-demand:2011">` +
			`<Period><AdaptationSet mimeType="video/mp4"><Representation id="1" bandwidth="1"><BaseURL>file:` + other + `</BaseURL></Representation></AdaptationSet></Period></MPD>`,
		"script":  "ffconcat version 1.0\nfile '" + other + "'\n",
		"session": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\na=rtpmap:96 H264/90000\n",
		"caption": "[Script Info]\nScriptType: v4.00+\n",
	} {
		path := filepath.Join(dir, name+"_%03d.mp4")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := decodeFilm(t, path, 3); err == nil || !strings.Contains(err.Error(), path+": ffmpeg says: ") || !strings.Contains(err.Error(), "(hint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A script that takes the place of ffmpeg and would run for a minute ends with the
// conversion.
func TestFFmpegEnds(t *testing.T) {
	bin := t.TempDir()
	pid := filepath.Join(bin, "pid")
	if err := os.WriteFile(filepath.Join(bin, "ffmpeg"), []byte("#!/bin/sh\necho $$ >"+pid+".part && mv "+pid+".part "+pid+"; exec sleep 60\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	const film = "testdata/films/pixels/ep_0.mp4"
	// This is the process that the test starts.
	if os.Getenv("SCALEWM_TEST_KILLED") != "" {
		_, err := openFilm(t.Context(), film, 0)
		for ; err == nil; time.Sleep(10 * time.Millisecond) {
			if b, readErr := os.ReadFile(pid); readErr == nil {
				fmt.Println("pid " + string(b))
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		t.Fatal(err)
	}
	ended := func(pid string) bool {
		for range 500 {
			b, err := os.ReadFile("/proc/" + pid + "/stat")
			if err != nil || strings.Contains(string(b), ") Z ") {
				return true
			}
			time.Sleep(10 * time.Millisecond)
		}
		return false
	}

	ctx, cancel := context.WithCancel(t.Context())
	f, err := openFilm(ctx, film, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := f.frames(0, 1, (&Job{}).fit); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if !ended(strconv.Itoa(f.cmd.Process.Pid)) {
		t.Error("ffmpeg goes on after the conversion was cancelled")
	}

	_ = os.Remove(pid)
	cmd := exec.Command(os.Args[0], "-test.run=^TestFFmpegEnds$")
	cmd.Env = append(os.Environ(), "SCALEWM_TEST_KILLED=1")
	out, _ := cmd.Output()
	_, child, ok := strings.Cut(string(out), "pid ")
	if child = strings.TrimSpace(child); !ok {
		t.Fatalf("it wrote %q", out)
	}
	if !ended(child) {
		t.Error("ffmpeg goes on after the conversion was killed")
	}
}

func TestTimes(t *testing.T) {
	const title = "# timecode format v2\n"
	for text, want := range map[string]string{
		title + "0\n100\n200\n": "",
		title + "0\n100\n240\n": "",
		title + "0\n100\n260\n": "frame 2 is shown at 0.26 s",
		title + "100\n200\n":    "frame 0 is shown at 0.1 s",
		title:                   "no times",
		title + "0\nNaN\n":      "frame 1 is shown at NaN s",
	} {
		if err := checkTimes(strings.NewReader(text), 10); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// checkTimes accepts any output.
func FuzzTimes(f *testing.F) {
	f.Add([]byte("# timecode format v2\n0\n100\n"), 10.)
	f.Fuzz(func(t *testing.T, b []byte, fps float64) {
		fuzztest.Read(t, len(b), func() { _ = checkTimes(bytes.NewReader(b), fps) })
	})
}

// readPPM accepts any output.
func FuzzPPM(f *testing.F) {
	f.Add([]byte("P6\n1 1\n255\nabc"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Read(t, len(b), func() { _, _ = readPPM(bufio.NewReader(bytes.NewReader(b)), true) })
	})
}
