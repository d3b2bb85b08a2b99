// The elements of the page; Gradio lays them out in tabs.

import "./head.js";
import "./image.js";
import "./memory.js";
import "./world.js";
