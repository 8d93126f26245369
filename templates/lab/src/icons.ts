import { LabIcon } from '@jupyterlab/ui-components';

import templatesSvg from '../style/icons/templates.svg';
import tensorBoardSvg from '../style/icons/tensorboard.svg';

export const tensorBoardIcon = new LabIcon({ name: 'dsportal:tensorboard', svgstr: tensorBoardSvg });
export const templatesIcon = new LabIcon({ name: 'dsportal:templates', svgstr: templatesSvg });
