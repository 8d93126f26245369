import { LabIcon } from '@jupyterlab/ui-components';

import environmentsSvg from '../style/icons/environments.svg';
import jobSvg from '../style/icons/job.svg';
import templatesSvg from '../style/icons/templates.svg';
import tensorBoardSvg from '../style/icons/tensorboard.svg';
import toolsSvg from '../style/icons/tools.svg';

export const tensorBoardIcon = new LabIcon({ name: 'dsportal:tensorboard', svgstr: tensorBoardSvg });
export const templatesIcon = new LabIcon({ name: 'dsportal:templates', svgstr: templatesSvg });
export const environmentsIcon = new LabIcon({ name: 'dsportal:environments', svgstr: environmentsSvg });
export const jobIcon = new LabIcon({ name: 'dsportal:job', svgstr: jobSvg });
export const toolsIcon = new LabIcon({ name: 'dsportal:tools', svgstr: toolsSvg });
