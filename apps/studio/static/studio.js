// The elements of the page; Gradio lays them out in tabs.

import "./ask.js";
import "./head.js";
import "./image.js";
import "./memory.js";
import "./replay.js";
import "./world.js";
