// The elements of the page; Gradio lays them out in tabs.

import "./ask.js";
import { openTab } from "./deep.js";
import "./head.js";
import "./image.js";
import "./memory.js";
import "./replay.js";
import "./text.js";
import "./world.js";

openTab({ world: "World", video: "Video", image: "Image", ask: "Ask", text: "Text", replay: "Replay", memory: "Memory & kernels" });
