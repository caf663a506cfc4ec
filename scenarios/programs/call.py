# SPDX-License-Identifier: GPL-2.0-only
"""Call: GStreamer, FFmpeg, Chromium, Firefox and baresip encode and decode picture and voice at once, both ends here.

Camera and microphone are made by the programs. Codec, size and frames a second differ. The two browsers show one page,
`call_data/call.html`, whose title says when pictures come. baresip has no window.
"""

import json
import random
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from asa.core.kinds import Kind
from scenarios.application import Parameters, Place
from scenarios.programs.browse import chromium_words, firefox_profile
from scenarios.programs.looping import Argv, Degree, run
from scenarios.programs.staged import Stage, Staged, program

_PAGE = Path(__file__).with_name("call_data") / "call.html"
_TALKING = "talking"  # the page's title then
_SIZES = {
    Degree.LIGHT: ("320x180", "320x240"),
    Degree.HALF: ("480x360", "640x360"),
    Degree.FULL: ("640x480", "1280x720"),
}
_SCREENS = ("1024x768", "1280x720")


def _draw(codecs: tuple[str, ...]) -> Callable[[random.Random, Place], Parameters]:
    def draw(rng: random.Random, place: Place) -> Parameters:
        degree = rng.choice(tuple(Degree))
        return {
            "degree": degree.value,
            "size": rng.choice(_SCREENS),
            "maximized": rng.random() < 0.5,
            "codec": rng.choice(codecs),
            "camera": rng.choice(_SIZES[degree]),
            "frames_per_s": rng.choice((10, 15) if degree is Degree.LIGHT else (15, 24, 30)),
            "kbit_per_s": rng.choice((300, 600, 1000, 2000)),
            "threads": rng.randint(1, max(1, min(4, place.cpus))),
            "talk_s": round(rng.uniform(1.0, 4.0), 2),
        }

    return draw


def _ports(count: int) -> list[int]:
    """Free ones of this moment."""
    held = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


_ENCODERS = {
    "vp8": ("vp8enc deadline=1 cpu-used=8 threads={threads} target-bitrate={bits}", "rtpvp8pay", "VP8", "vp8dec"),
    "vp9": ("vp9enc deadline=1 cpu-used=8 threads={threads} target-bitrate={bits}", "rtpvp9pay", "VP9", "vp9dec"),
    "h264": (
        "x264enc tune=zerolatency speed-preset=veryfast threads={threads} bitrate={kilobits}",
        "rtph264pay",
        "H264",
        "avdec_h264",
    ),
}


def _gst_end(stage: Stage, out: list[int], into: list[int], sink: str) -> Argv:
    """One end: `out` and `into` are the ports of picture and voice."""
    given = stage.given
    encoder, pay, name, decoder = _ENCODERS[given["codec"]]
    width, height = given["camera"].split("x")
    kilobits = given["kbit_per_s"]
    encoder = encoder.format(threads=given["threads"], bits=1000 * kilobits, kilobits=kilobits)
    camera = f"video/x-raw,width={width},height={height},framerate={given['frames_per_s']}/1"
    caps = "application/x-rtp,clock-rate={},encoding-name={},media={},payload=96"
    pipeline = (
        f"videotestsrc is-live=true pattern=ball ! {camera} ! videoconvert ! {encoder} ! {pay} pt=96 !"
        f" udpsink host=127.0.0.1 port={out[0]} sync=false async=false"
        f" audiotestsrc is-live=true wave=pink-noise ! audioconvert ! opusenc ! rtpopuspay pt=96 !"
        f" udpsink host=127.0.0.1 port={out[1]} sync=false async=false"
        f" udpsrc address=127.0.0.1 port={into[0]} caps={caps.format(90000, name, 'video')} ! rtpjitterbuffer !"
        f" {pay.replace('pay', 'depay')} ! {decoder} ! videoconvert ! {sink}"
        f" udpsrc address=127.0.0.1 port={into[1]} caps={caps.format(48000, 'OPUS', 'audio')} ! rtpjitterbuffer !"
        " rtpopusdepay ! opusdec ! audioconvert ! fakesink sync=true async=false"
    )
    return ("gst-launch-1.0", "-q", *pipeline.split())


def _gst(stage: Stage) -> None:
    ports = _ports(4)
    ours, theirs = ports[:2], ports[2:]
    stage.start(_gst_end(stage, theirs, ours, "ximagesink sync=false async=false"))
    stage.start(_gst_end(stage, ours, theirs, "fakesink sync=false async=false"))


def _ffmpeg(stage: Stage) -> None:
    """Two senders, a window for what comes to us, and the other end's decoder."""
    given = stage.given
    codecs = {
        "h264": ("libx264", "-preset", "veryfast", "-tune", "zerolatency", "-g", "60"),
        "mpeg2": ("mpeg2video", "-g", "30"),
    }
    picture = f"testsrc2=size={given['camera']}:rate={given['frames_per_s'] if given['codec'] == 'h264' else 25}"
    quiet = ("-v", "error")
    made = ("-re", "-f", "lavfi", "-i", picture, "-re", "-f", "lavfi", "-i", "anoisesrc=amplitude=0.1")
    how = ("-pix_fmt", "yuv420p", "-b:v", f"{given['kbit_per_s']}k", "-threads", str(given["threads"]))
    ends = [f"udp://127.0.0.1:{port}" for port in _ports(2)]
    size = "?pkt_size=1316"
    live = ("-fflags", "nobuffer", "-flags", "low_delay", "-f", "mpegts")
    stage.start(("ffplay", *quiet, *live, ends[0]))
    stage.start(("ffmpeg", *quiet, "-nostdin", *live, "-i", ends[1], "-f", "null", "-"))
    for end in ends:
        words = ("-c:v", *codecs[given["codec"]], *how, "-c:a", "libopus", "-f", "mpegts", f"{end}{size}")
        stage.start(("ffmpeg", *quiet, "-nostdin", *made, *words))


_BARESIP = """\
poll_method epoll
net_interface {host}
sip_listen {host}:{port}
audio_player aufile,/dev/null
audio_source ausine,440
audio_alert aufile,/dev/null
video_source avformat,{camera}
video_display fakevideo,nil
video_size {size}
video_bitrate {bits}
video_fps {frames_per_s}
module_path {modules}
module opus.so
module ausine.so
module aufile.so
module avcodec.so
module avformat.so
module fakevideo.so
module_tmp account.so
module_app menu.so
"""


def _baresip(stage: Stage) -> None:
    """Two ends, of which the second answers by itself; the first says how many pictures it encodes once it talks."""
    given, scratch, (port,) = stage.given, stage.driver.scratch, _ports(1)
    modules = next(Path("/usr/lib").glob("**/baresip/modules"))
    picture = f"testsrc2=size={given['camera']}:rate={given['frames_per_s']}"
    made = ("-t", "5", "-pix_fmt", "yuv420p", "-c:v", "mpeg4", "-q:v", "3", str(scratch / "camera.mkv"))
    run(("ffmpeg", "-v", "error", "-nostdin", "-f", "lavfi", "-i", picture, *made))
    camera = scratch / "camera.ffconcat"  # a file alone would end
    camera.write_text("ffconcat version 1.0\n" + "file camera.mkv\n" * 5000)
    said = {"port": port, "camera": camera, "size": given["camera"], "modules": modules}
    said |= {"bits": 1000 * given["kbit_per_s"], "frames_per_s": given["frames_per_s"]}
    for number in (2, 1):
        folder, host = scratch / f"end{number}", f"127.0.0.{number}"
        folder.mkdir()
        (folder / "config").write_text(_BARESIP.format(host=host, **said))
        codecs = f"audio_codecs=opus/48000/2;video_codecs={given['codec']}"
        (folder / "accounts").write_text(f"<sip:u@{host}:{port}>;regint=0;answermode=auto;{codecs}\n")
        calls = ("-e", f"/dial sip:u@127.0.0.2:{port}") if number == 1 else ()
        log = stage.start(("baresip", "-f", str(folder), *calls))
        sign = "efps=" if calls else "baresip is ready"
        stage.wait_for(lambda log=log, sign=sign: sign in log.read_text(errors="replace"), sign)  # type: ignore[misc]


def _address(stage: Stage) -> str:
    width, height = (int(part) for part in stage.given["camera"].split("x"))
    asked = {"width": width, "height": height, "frames_per_s": stage.given["frames_per_s"]}
    return f"{_PAGE.as_uri()}#{quote(json.dumps({**asked, 'codec': stage.given['codec']}))}"


def _talks(stage: Stage) -> None:
    stage.wait_for(lambda: _TALKING in stage.desk.title(), "pictures of the call", 120.0)


def _chromium(stage: Stage) -> None:
    fakes = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
    ways = ("--allow-loopback-in-peer-connection", "--disable-features=WebRtcHideLocalIpsWithMdns,Translate")
    stage.start((*chromium_words(stage), *fakes, *ways, f"--app={_address(stage)}"))
    _talks(stage)


def _firefox(stage: Stage) -> None:
    more = {
        "media.navigator.streams.fake": True,
        "media.navigator.permission.disabled": True,
        "media.peerconnection.ice.loopback": True,
        "media.peerconnection.ice.obfuscate_host_addresses": False,
    }
    profile = firefox_profile(stage.driver.scratch / "profile", more)
    stage.start(("firefox-esr", "--no-remote", "--new-instance", "--profile", str(profile), _address(stage)))
    _talks(stage)


def _talk(stage: Stage) -> None:
    stage.pause(stage.given["talk_s"])


def _call(
    name: str,
    begin: Callable[[Stage], None],
    *,
    packages: tuple[str, ...],
    programs: tuple[str, ...],
    codecs: tuple[str, ...],
    version: Argv = ("--version",),
    screen: bool = True,
) -> Staged:
    return program(
        __name__,
        name=name,
        kind=Kind.CALL,
        packages=packages,
        programs=programs,
        draw=_draw(codecs),
        begin=begin,
        act=_talk,
        version=version,
        screen=screen,
    )


_CODECS = ("vp8", "vp9", "h264")
_GSTREAMER = tuple(
    f"gstreamer1.0-{name}" for name in ("tools", "plugins-base", "plugins-good", "plugins-ugly", "libav", "x")
)

PROGRAMS = (
    _call("gst-call", _gst, packages=_GSTREAMER, programs=("gst-launch-1.0",), codecs=_CODECS),
    _call(
        "ffmpeg-call",
        _ffmpeg,
        packages=("ffmpeg",),
        programs=("ffmpeg", "ffplay"),
        codecs=("h264", "mpeg2"),
        version=("-version",),
    ),
    _call("chromium-call", _chromium, packages=("chromium",), programs=("chromium",), codecs=_CODECS),
    _call("firefox-call", _firefox, packages=("firefox-esr",), programs=("firefox-esr",), codecs=_CODECS),
    _call(
        "baresip",
        _baresip,
        packages=("baresip-core", "baresip-ffmpeg", "ffmpeg"),
        programs=("baresip", "ffmpeg"),
        codecs=("h264", "h265"),
        version=("-h",),
        screen=False,
    ),
)
